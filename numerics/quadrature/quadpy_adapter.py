"""Plane and square quadrature schemes of quadpy, where a usable copy is installed.

Releases of quadpy on the package index ask for a paid licence and may end the interpreter that imports
them. So quadpy is never imported here: every request runs in a Python process of its own and comes back as
numbers. The built-in rules of this package need none of it.
"""

import json
import operator
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["QuadpyScheme", "QuadratureBackendUnavailable", "quadpy_available", "quadpy_scheme"]

Domain = Literal["square", "plane"]

# quadpy's own names of the two domains.
_QUADPY_NAME: dict[str, str] = {"square": "c2", "plane": "e2r2"}

# What a licence notice prints may stand before the answer; this marks the answer.
_MARK = "attnlimits-quadpy-answer:"

_CHILD = """
import importlib.metadata, json, sys
mark, name, degree = sys.argv[1], sys.argv[2], sys.argv[3]
import quadpy
version = getattr(quadpy, "__version__", None)
if version is None:
    owners = importlib.metadata.packages_distributions().get("quadpy", [])
    version = importlib.metadata.version(owners[0]) if owners else "unknown"
answer = {"version": str(version)}
if name:
    scheme = getattr(quadpy, name).get_good_scheme(int(degree))
    if scheme is not None:
        answer["name"] = str(scheme.name)
        answer["degree"] = int(scheme.degree)
        answer["points"] = [[float(x) for x in row] for row in scheme.points]
        answer["weights"] = [float(w) for w in scheme.weights]
print()
print(mark + json.dumps(answer), flush=True)
"""


class QuadratureBackendUnavailable(RuntimeError):
    """An optional quadrature backend is not installed, not licensed, or not of use here."""


@dataclass(frozen=True)
class QuadpyScheme:
    r"""Nodes and weights with :math:`\int f\,d\mu \approx \sum_i w_i f(x_i)`.

    Attributes
    ----------
    domain : {"square", "plane"}
        The measure: Lebesgue on ``[-1, 1]^2`` (weights sum to 4), or the standard normal ``N(0, I_2)``
        (weights sum to 1).
    nodes : ndarray of float, shape (n, 2)
        One node per row.
    weights : ndarray of float, shape (n,)
        Some schemes have negative weights.
    exact_to : int
        Every polynomial up to this total degree is integrated exactly, up to `moment_error`.
    moment_error : float
        Largest error over the monomials up to `exact_to`, each relative to the sum of the absolute terms.
        Measured here, not taken from quadpy.
    name : str
        quadpy's name of the scheme.
    backend_version : str
        The version of quadpy that gave it.
    """

    domain: Domain
    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]
    exact_to: int
    moment_error: float
    name: str
    backend_version: str


def quadpy_available(*, timeout: float = 60.0) -> bool:
    """Tell whether quadpy can be imported, without importing it.

    Parameters
    ----------
    timeout : float, default 60
        Seconds to wait for the import. Must be positive.

    Returns
    -------
    bool
        True if a fresh interpreter imports quadpy and lives. Each call starts one.

    Raises
    ------
    ValueError
        If `timeout` is not positive.
    """
    try:
        _ask("", 0, timeout)
    except QuadratureBackendUnavailable:
        return False
    return True


def quadpy_scheme(domain: Domain, degree: int, *, timeout: float = 60.0) -> QuadpyScheme:
    """Fetch quadpy's recommended scheme for a domain, normalised and checked against exact moments.

    Parameters
    ----------
    domain : {"square", "plane"}
        See `QuadpyScheme`.
    degree : int
        Total polynomial degree the scheme must integrate exactly, at least 0.
    timeout : float, default 60
        Seconds to wait for quadpy. Must be positive.

    Returns
    -------
    QuadpyScheme
        Keep it: each call starts a Python process.

    Raises
    ------
    ValueError
        If `domain` is unknown, `degree` is negative or beyond what quadpy has, or `timeout` is not positive.
    TypeError
        If `degree` is not an integer.
    QuadratureBackendUnavailable
        If quadpy cannot be imported, or what it returns fails the moment check.

    Notes
    -----
    quadpy's weights on both domains are fixed here by their known sum, and its plane weight ``exp(-|x|^2)``
    becomes the standard normal by ``h = sqrt(2) x``, so that nodes serve directly as whitened indices.
    """
    if domain not in _QUADPY_NAME:
        raise ValueError(f"domain must be one of {sorted(_QUADPY_NAME)}, got {domain!r}")
    degree = operator.index(degree)
    if degree < 0:
        raise ValueError(f"degree must be at least 0, got {degree}")

    answer = _ask(_QUADPY_NAME[domain], degree, timeout)
    if "points" not in answer:
        raise ValueError(
            f"quadpy {answer['version']} has no scheme of degree {degree} for the {domain}; "
            "ask for a lower degree, or use a built-in rule"
        )
    points = np.asarray(answer["points"], dtype=np.float64)
    weights = np.asarray(answer["weights"], dtype=np.float64)
    if points.shape != (2, weights.size) or not weights.sum() > 0.0:
        raise QuadratureBackendUnavailable(
            f"quadpy {answer['version']} returned points of shape {points.shape} and {weights.size} weights "
            f"of sum {weights.sum():.3g}; expected (2, {weights.size}) and a positive sum, as from 0.16 on"
        )

    measure, scale = (4.0, 1.0) if domain == "square" else (1.0, np.sqrt(2.0))
    nodes = scale * points.T
    weights = weights * (measure / weights.sum())
    exact_to = int(answer["degree"])
    error = _moment_error(domain, nodes, weights, max(exact_to, degree))
    # quadpy holds its schemes to about 1e-14 per moment; two hundred nodes of rounding stay below this.
    moment_tolerance = 1e-11
    # Written so that NaN fails as well.
    if not error <= moment_tolerance or exact_to < degree:
        raise QuadratureBackendUnavailable(
            f"scheme {answer['name']!r} of quadpy {answer['version']} claims degree {exact_to} on the "
            f"{domain}, but its moments up to degree {max(exact_to, degree)} are off by {error:.1e}; "
            "use a built-in rule"
        )
    return QuadpyScheme(
        domain=domain,
        nodes=np.ascontiguousarray(nodes),
        weights=weights,
        exact_to=exact_to,
        moment_error=error,
        name=str(answer["name"]),
        backend_version=str(answer["version"]),
    )


def _ask(name: str, degree: int, timeout: float) -> dict[str, Any]:
    """Run one request in a fresh interpreter; an empty name only probes the import."""
    if not timeout > 0.0:
        raise ValueError(f"timeout must be positive, got {timeout!r}")
    if not sys.executable:
        raise QuadratureBackendUnavailable("quadpy needs a Python process, and sys.executable is empty")
    # -P: a file quadpy.py in the current folder is not quadpy.
    command = [sys.executable, "-P", "-c", _CHILD, _MARK, name, str(degree)]
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # a prompt for a licence key meets the end of input instead of waiting
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise QuadratureBackendUnavailable(
            f"quadpy did not answer within {timeout:g} s; raise `timeout`, or use a built-in rule"
        ) from None
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            answer: dict[str, Any] = json.loads(line[len(_MARK) :])
            return answer
    said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1].strip()
    raise QuadratureBackendUnavailable(
        f"quadpy cannot be imported (exit status {done.returncode}; it said: {said}). It is optional, and "
        "its releases need a licence: get one and `pip install 'attnlimits[quadpy]'`, or use a built-in rule"
    )


def _moment_error(domain: Domain, nodes: NDArray[np.float64], weights: NDArray[np.float64], degree: int) -> float:
    """Largest error over the monomials x^a y^b with a + b <= degree, relative to sum |w x^a y^b|."""
    errors = []
    for a in range(degree + 1):
        for b in range(degree + 1 - a):
            terms = weights * nodes[:, 0] ** a * nodes[:, 1] ** b
            exact = _moment(domain, a) * _moment(domain, b)
            size = max(float(np.abs(terms).sum()), abs(exact))
            # size 0: all nodes lie on an axis and the exact moment is zero too.
            errors.append(abs(float(terms.sum()) - exact) / size if size != 0.0 else 0.0)
    return float(np.max(errors))  # np.max keeps NaN, the built-in max may drop it


def _moment(domain: Domain, power: int) -> float:
    """Exact one-dimensional moment: of Lebesgue on [-1, 1], or of N(0, 1)."""
    if power % 2:
        return 0.0
    if domain == "square":
        return 2.0 / (power + 1)
    return float(np.prod(np.arange(power - 1, 0, -2, dtype=np.float64)))
