"""Whether the parameters of a learned layer are the only ones, and how well the examples fix them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from ..core.shown import few_lines
from ..learning.blocks import Array
from .batch import Batch
from .equivalences import Degeneracies, find_degeneracies
from .errors import NotIdentifiable
from .gram import column_norms, gram, rows
from .head_errors import HeadError, expected_error, head_errors
from .matrix_free import find_null
from .undetermined import Open, open_directions

__all__ = ["Certificates", "Doubt", "Reason", "certify", "refusal", "sensitivity"]

#: Why the parameters of a layer are not the only ones: fewer outputs than unknowns; coordinates of X that do not vary
#: by themselves; heads that are equal, silent, opposite or flip; null directions of the Jacobian; heads that the noise
#: hides; a head that is not needed.
Reason = Literal["few examples", "inputs", "heads", "singular", "noise", "spare head"]

#: Below it some direction of parameters leaves the layer as it is: sigma_min / sigma_max of the scaled Jacobian.
SENSITIVE = 1e-6
# Unknowns up to which the Jacobian's spectrum is computed, at the cost of their cube; beyond, null directions are
# searched by products with the Jacobian alone.
_MOST_UNKNOWNS = 2400


@few_lines
@dataclass(frozen=True)
class Doubt:
    """One reason why other parameters may give the same layer, or one as good.

    Attributes
    ----------
    reason : Reason
    status : str
        What it is, in words.
    """

    reason: Reason
    status: str


@few_lines
@dataclass(frozen=True)
class Certificates:
    """Tests of whether the parameters of a learned layer are the only ones.

    Attributes
    ----------
    sensitivity : float or None
        sigma_min / sigma_max of the Jacobian with columns scaled to norm one, unless they are rounding beside the scale
        of the inputs: 0 where a direction of parameters leaves the layer unchanged. None above 2400 unknowns.
    checked : bool
        Whether null directions of the Jacobian were looked for to the end; above 2400 unknowns by LSMR.
    null_directions : tuple of str
        What the examples do not determine, and why, in words; heads and coordinates are numbered from 0.
    expected_error : float or None
        Largest relative standard deviation of any Theta_i or W_i under the noise, to first order, over norms without
        their share of noise; infinite where a head may be zero. None where it is not known (`error_status`).
    heads : tuple of HeadError, or None
        The same of each head, in absolute units and with intervals. None without noise, and where it is not known.
    error_status : str
        Description of the errors, or why they are not known.
    degeneracies : Degeneracies
        Equal heads, heads without values, sign flips at k = 2.
    slack : ndarray, shape (m,), or None
        Least t of the convex body K(t) that contains Theta_i; of sculpting only.
    doubts : tuple of Doubt
        Why the parameters may not be the only ones, each with its reason; empty where no test found others.
    status : str
        A sentence.
    """

    sensitivity: float | None
    checked: bool
    null_directions: tuple[str, ...]
    expected_error: float | None
    heads: tuple[HeadError, ...] | None
    error_status: str
    degeneracies: Degeneracies
    slack: Array | None
    doubts: tuple[Doubt, ...]
    status: str

    @property
    def passed(self) -> bool:
        """Whether no test found other parameters, up to the order of the heads; see `checked` for what was tested."""
        return not self.doubts

    @property
    def counted_out(self) -> bool:
        """Whether the examples have fewer outputs than the layer has parameters."""
        return self.has("few examples")

    def has(self, reason: Reason) -> bool:
        """Whether this is one of the reasons why the parameters may not be the only ones."""
        return any(doubt.reason == reason for doubt in self.doubts)


_PASSED = "no other parameters near by or by a known equivalence, up to the order of the heads"
_UNCHECKED = (
    "no other parameters by a known equivalence, up to the order of the heads; whether others are near by is not "
    "checked: the search for null directions of the Jacobian did not end"
)


def certify(
    X: Array,
    theta: Array,
    w: Array,
    *,
    noise_std: float = 0.0,
    slack: Array | None = None,
    doubt: str = "",
    spare: str = "",
) -> Certificates:
    """Test a learned layer.

    Parameters
    ----------
    X : ndarray, shape (n, k, d)
        The examples it was learned from; k >= 2.
    theta, w : ndarray, shape (m, d, d)
    noise_std : float
        Of every entry of their outputs.
    slack : ndarray, shape (m,), optional
        Passed on.
    doubt : str
        Why it may not be the layer of the largest likelihood, near which alone the errors hold; empty where it is.
    spare : str
        Why one of its heads may be no head at all; empty where each is needed.

    References
    ----------
    chen2024, identifiability.
    """
    degenerate = find_degeneracies(theta, w, X.shape[1])
    inputs = open_directions(X)
    near = _near_by(X, theta, w, inputs)
    doubts = [*_counted(X, theta), *(Doubt("inputs", one) for one in inputs.sentences(len(theta)))]
    null = [doubt.status for doubt in doubts]
    singular = bool(null) or near.singular
    heads, expected = None, None
    if noise_std == 0:
        expected, said = 0.0, "none, for there is no noise"
    elif singular:
        said = "not known: the Jacobian is singular"
    elif near.gram is None:
        said = f"not known: more than {_MOST_UNKNOWNS} unknowns"
    elif doubt:
        said = f"not known: {doubt}"
    else:
        heads = head_errors(near.gram, theta, w, noise_std)
        expected, said = expected_error(heads), "of the noise, to first order"
    if not degenerate.identifiable:
        doubts.append(Doubt("heads", degenerate.status))
    if near.singular:
        sensitive = "" if near.ratio is None else f": sigma_min/sigma_max = {near.ratio:.1e}"
        doubts.append(Doubt("singular", f"the Jacobian is singular{sensitive}, in {near.where}"))
        null.append(f"the Jacobian is singular in {near.where}")
    doubts += _open_heads(heads, expected)
    if spare:
        doubts.append(Doubt("spare head", f"the noise leaves a head open: {spare}"))
    status = "; ".join(one.status for one in doubts) or (_PASSED if near.checked else _UNCHECKED)
    ratio = near.ratio if near.gram is not None else None
    return Certificates(
        ratio, near.checked, tuple(null), expected, heads, said, degenerate, slack, tuple(doubts), status
    )


def _open_heads(heads: tuple[HeadError, ...] | None, expected: float | None) -> list[Doubt]:
    """Heads that the noise leaves open."""
    zero = [i for i, head in enumerate(heads or ()) if head.maybe_zero]
    if zero:
        which = ", ".join(str(i) for i in zero)
        said = f"the noise leaves a head open: {which} may be zero, its error is as large as its norm"
        return [Doubt("noise", said)]
    # Expected relative error of a head beyond which the noise leaves it open.
    fixed = 0.5
    if expected is not None and expected > fixed:
        return [Doubt("noise", f"the noise leaves a head open: expected relative error {expected:.2g}")]
    return []


def _counted(X: Array, theta: Array) -> list[Doubt]:
    """That there are fewer equations than unknowns, if so."""
    n, k, d = X.shape
    if n * k * d >= 2 * theta.size:
        return []
    said = f"the outputs of {n} examples are {n * k * d} numbers, fewer than the unknowns, {2 * theta.size}"
    return [Doubt("few examples", said)]


class _Near(NamedTuple):
    """Null directions of the Jacobian: where they are, and the normal equations if there are any."""

    singular: bool
    checked: bool
    ratio: float | None
    where: str
    gram: Array | None


def _near_by(X: Array, theta: Array, w: Array, inputs: Open) -> _Near:
    """Look for null directions, in the examples that fix them first and in all where these do not."""
    kept = X[: rows(X, theta)]
    near = _look(kept, theta, w, inputs)
    if near.singular and len(kept) < len(X):
        # Saturated attention depends on Theta at few samples only: all of them are taken.
        kept = X
        near = _look(kept, theta, w, inputs)
    return near if near.gram is None else _Near(*near[:-1], near.gram * (len(X) / len(kept)))


def _look(X: Array, theta: Array, w: Array, inputs: Open) -> _Near:
    unit = _units(inputs, len(theta))
    if 2 * theta.size > _MOST_UNKNOWNS:
        scale = _scale(column_norms(X, theta, w), unit)
        found = find_null(Batch(X), theta, w, scale, SENSITIVE)
        where = "" if found.null is None else _blocks(found.null[:, None], len(theta))
        return _Near(found.null is not None, found.checked, found.ratio, where, None)
    found_gram = gram(X, theta, w)
    values, vectors = _spectrum(found_gram, unit)
    ratio = _root_ratio(values)
    null = vectors[:, values <= SENSITIVE**2 * values[-1]]
    return _Near(ratio <= SENSITIVE, True, ratio, _blocks(null, len(theta)) if null.size else "", found_gram)


def _blocks(null: Array, heads: int) -> str:
    """The matrices that null directions are of."""
    shares = (null**2).reshape(2 * heads, -1).sum(axis=1) / float((null**2).sum())
    names = [f"Theta_{i}" for i in range(heads)] + [f"W_{i}" for i in range(heads)]
    count = null.shape[1]
    # A block of parameters takes part in null directions if it has this share of their squares.
    said = ", ".join(name for name, share in zip(names, shares, strict=True) if share > 0.01)
    return f"{count} direction{'s' if count > 1 else ''} of {said}" if count > 1 else f"a direction of {said}"


def _units(inputs: Open, heads: int) -> Array:
    """Size of a column of the Jacobian by that of the coordinates that it is of."""
    size = inputs.scale
    return np.concatenate([np.tile(np.outer(size, size).ravel(), heads), np.tile(np.repeat(size, len(size)), heads)])


def _scale(norms: Array, unit: Array) -> Array:
    """Norms of the columns; of those that are rounding beside the others of their matrices, what these have."""
    relative = (norms / unit).reshape(2, -1)
    floor = SENSITIVE * np.sqrt(np.mean(relative**2, axis=1, keepdims=True))
    floor[floor == 0] = 1.0
    return np.asarray(np.where(relative > floor, relative, floor / SENSITIVE).ravel() * unit)


def _spectrum(matrix: Array, unit: Array) -> tuple[Array, Array]:
    scale = 1 / _scale(np.sqrt(np.maximum(np.diag(matrix), 0.0)), unit)
    values, vectors = eigh(matrix * scale[:, None] * scale)
    return values, vectors


def _root_ratio(values: Array) -> float:
    return float(np.sqrt(max(values[0], 0.0) / values[-1])) if values[-1] > 0 else 0.0


def refusal(found: Certificates) -> NotIdentifiable | None:
    """The error that the certificates call for, or None."""
    if found.passed:
        return None
    return NotIdentifiable(
        "the learned layer",
        f"one of many with the same outputs ({found.status})",
        "a layer whose heads differ, all with values, at k = 2 with no set of W_i that sums to zero, on inputs whose "
        "coordinates vary by themselves",
        "leave out such coordinates of X" if found.has("inputs") else "take fewer heads, or more samples",
        "strict=False returns one of these layers",
    )


def sensitivity(X: ArrayLike, theta: ArrayLike, w: ArrayLike) -> float:
    """sigma_min / sigma_max of the Jacobian on these inputs, each column scaled to norm one.

    Parameters
    ----------
    X : array_like, shape (n, k, d)
    theta, w : array_like, shape (m, d, d)

    Returns
    -------
    float
        Exact to about 1e-8, for it is the root of a ratio of eigenvalues of J^T J.
    """
    tokens, parts, values = (np.asarray(a, dtype=np.float64) for a in (X, theta, w))
    found = gram(tokens, parts, values)
    return _root_ratio(_spectrum(found, _units(open_directions(tokens), len(parts)))[0])
