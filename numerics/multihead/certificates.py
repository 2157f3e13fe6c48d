"""Whether the parameters of a learned layer are the only ones, how well the examples fix them, and its exact risk."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh

from ..learning.blocks import Array
from .batch import Batch
from .equivalences import Degeneracies, find_degeneracies
from .errors import NotIdentifiable
from .head_errors import HeadError, expected_error, head_errors
from .refine import gram_blocks

__all__ = ["Certificates", "ExactRisk", "certify", "exact_risk", "refusal", "sensitivity"]

#: Below it some direction of parameters leaves the layer as it is: sigma_min / sigma_max of the scaled Jacobian.
SENSITIVE = 1e-6
# Unknowns up to which the Jacobian's spectrum is computed: its cost is their cube.
_MOST_UNKNOWNS = 2400
# Output entries per unknown that it is computed from: with few of them, inverses come out too large.
_PER_UNKNOWN = 32
# Expected relative error of a head beyond which the noise leaves it open.
_FIXED = 0.5
_DOMAIN_BITS, _BLOCK_BITS = 20, 14


@dataclass(frozen=True)
class Certificates:
    """Tests of whether the parameters of a learned layer are the only ones.

    Attributes
    ----------
    sensitivity : float or None
        sigma_min / sigma_max of the Jacobian with columns scaled to norm one: 0 where a direction of parameters leaves
        the layer unchanged. None above 2400 unknowns.
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
    status : str
        A sentence.
    """

    sensitivity: float | None
    expected_error: float | None
    heads: tuple[HeadError, ...] | None
    error_status: str
    degeneracies: Degeneracies
    slack: Array | None
    status: str

    @property
    def passed(self) -> bool:
        """Whether all tests found the parameters to be the only ones, up to the order of the heads."""
        return self.status == PASSED


PASSED = "no other parameters near by or by a known equivalence, up to the order of the heads"


@dataclass(frozen=True)
class ExactRisk:
    """Difference of two layers over all inputs {+-1}^{k x d}.

    Attributes
    ----------
    nmse : float
        E |F' - F|^2 / E |F|^2.
    largest : float
        Largest |F' - F| of any entry of any input.
    inputs : int
        2^{k d}.
    """

    nmse: float
    largest: float
    inputs: int


def certify(
    X: Array,
    theta: Array,
    w: Array,
    *,
    noise_std: float = 0.0,
    slack: Array | None = None,
    doubt: str = "",
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

    References
    ----------
    chen2024, identifiability.
    """
    degenerate = find_degeneracies(theta, w, X.shape[1])
    sensitive = expected = heads = None
    said = f"not known: more than {_MOST_UNKNOWNS} unknowns"
    if 2 * theta.size <= _MOST_UNKNOWNS:
        kept = X[: _rows(X, theta)]
        gram = _gram(kept, theta, w)
        sensitive = _ratio(gram)
        if sensitive <= SENSITIVE and len(kept) < len(X):
            # Saturated attention depends on Theta at few samples only: all of them are taken.
            kept = X
            gram = _gram(kept, theta, w)
            sensitive = _ratio(gram)
        if noise_std == 0:
            expected, said = 0.0, "none, for there is no noise"
        elif sensitive <= SENSITIVE:
            said = "not known: the Jacobian is singular"
        elif doubt:
            said = f"not known: {doubt}"
        else:
            heads = head_errors(gram * (len(X) / len(kept)), theta, w, noise_std)
            expected, said = expected_error(heads), "of the noise, to first order"
    reasons = []
    if not degenerate.identifiable:
        reasons.append(degenerate.status)
    if sensitive is not None and sensitive <= SENSITIVE:
        reasons.append(f"the Jacobian is singular: sigma_min/sigma_max = {sensitive:.1e}")
    zero = [i for i, head in enumerate(heads or ()) if head.maybe_zero]
    if zero:
        which = ", ".join(str(i) for i in zero)
        reasons.append(f"the noise leaves a head open: {which} may be zero, its error is as large as its norm")
    elif expected is not None and expected > _FIXED:
        reasons.append(f"the noise leaves a head open: expected relative error {expected:.2g}")
    return Certificates(sensitive, expected, heads, said, degenerate, slack, "; ".join(reasons) or PASSED)


def refusal(found: Certificates) -> NotIdentifiable | None:
    """The error that the certificates call for, or None."""
    if found.passed:
        return None
    return NotIdentifiable(
        "the learned layer",
        f"one of many with the same outputs ({found.status})",
        "a layer whose heads differ, all with values, and at k = 2 with no set of W_i that sums to zero",
        "take fewer heads, or more samples; strict=False returns one of these layers",
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
    return _ratio(_gram(np.asarray(X, dtype=np.float64), *(np.asarray(a, dtype=np.float64) for a in (theta, w))))


def _rows(X: Array, theta: Array) -> int:
    return max(1, -(-_PER_UNKNOWN * 2 * theta.size // (X.shape[1] * X.shape[2])))


def _gram(X: Array, theta: Array, w: Array) -> Array:
    """J^T J in the order theta.ravel(), w.ravel()."""
    batch = Batch(X)
    mixed = batch.mixed(batch.attention(theta))
    outer, cross, _ = gram_blocks(batch, theta, w, mixed, np.zeros_like(batch.rows))
    size = theta.size
    found = np.empty((2 * size, 2 * size))
    found[:size, :size] = outer
    found[:size, size:] = cross.reshape(size, size)
    found[size:, :size] = found[:size, size:].T
    found[size:, size:] = np.kron(mixed @ mixed.T, np.eye(batch.dim))
    return found


def _ratio(gram: Array) -> float:
    diagonal = np.diag(gram)
    if diagonal.min() <= 0:
        return 0.0
    scale = 1 / np.sqrt(diagonal)
    if not np.isfinite(scale).all():
        return 0.0
    values = eigvalsh(gram * scale[:, None] * scale)
    return float(np.sqrt(max(values[0], 0.0) / values[-1]))


def exact_risk(theta: ArrayLike, w: ArrayLike, theta_true: ArrayLike, w_true: ArrayLike, tokens: int) -> ExactRisk:
    """Compare two layers on all inputs.

    Parameters
    ----------
    theta, w : array_like, shape (m, d, d)
    theta_true, w_true : array_like, shape (m', d, d)
    tokens : int
        k, with k d <= 20.

    Raises
    ------
    ValueError
        k d > 20.
    """
    learned, true = (
        tuple(np.asarray(a, dtype=np.float64) for a in pair) for pair in ((theta, w), (theta_true, w_true))
    )
    dim = true[0].shape[1]
    bits = tokens * dim
    if bits > _DOMAIN_BITS:
        raise ValueError(
            f"tokens * dim must be <= {_DOMAIN_BITS} for all 2^(k d) inputs (chen2024), got {tokens} * {dim}; "
            "use a test sample"
        )
    squares = size = largest = 0.0
    for begin in range(0, 1 << bits, 1 << _BLOCK_BITS):
        codes = np.arange(begin, min(begin + (1 << _BLOCK_BITS), 1 << bits))
        batch = Batch(2.0 * (codes[:, None] >> np.arange(bits) & 1).reshape(-1, tokens, dim) - 1.0)
        wanted = batch.predict(*true)
        off = batch.predict(*learned) - wanted
        squares += float(np.vdot(off, off))
        size += float(np.vdot(wanted, wanted))
        largest = max(largest, float(np.abs(off).max()))
    return ExactRisk(squares / size, largest, 1 << bits)
