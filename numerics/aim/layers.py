r"""Several layers or heads with weights S_1..S_L of extensive width: what is known in closed form.

h^l_ab = Tr(S_l Z_ab), all on the same tokens, so that Cov(h^l_ab, h^l'_ab) = (1 + delta_ab) Q_ll' with
Q_ll' = delta_ll' + (rho_l rho_l')^{1/2}: the means of the S_l, multiples of the identity, overlap. The prior's side of
the state evolution is the joint denoising of S_1..S_L under Y = S + qhat^{-1/2} GOE^L, with qhat an L x L matrix. It is
known

- for qhat diagonal, where the layers part: q_ll = Q_ll - MMSE_{rho_l}(1/qhat_ll), q_ll' = (rho_l rho_l')^{1/2};
- for rho -> infinity at any qhat: V = Q - q = (I + qhat)^{-1};
- for rho -> 0 with qhat diagonal: q_ll = max(1 - rho_l/qhat_ll, 0)^2, q_ll' = 0.

Both sides are known, at any width, for heads of one width whose scores are added (`heads`), and for the last layer
where those before it are known (`last_layer`): each is the state evolution of one layer.

Open: qhat with entries off the diagonal at finite width, where matrices that do not commute are denoised together and
no closed form is known; the channel's side of a deep network, which needs E[h | y, omega] through all its layers; and
any check of a state evolution of layers that are unknown together against an algorithm. `deep_outputs` is the network
itself, for such work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..core.validation import numbers
from ..learning.blocks import Array
from .channels import Softmax
from .checks import CITE, above_zero, from_zero
from .spectrum import mmse

__all__ = ["deep_outputs", "joint_covariance", "network_matrix", "prior_overlap"]


def joint_covariance(rho: Sequence[float]) -> Array:
    """Q_ll' = delta_ll' + (rho_l rho_l')^{1/2}.

    Parameters
    ----------
    rho : sequence of float
        Width of each layer, >= 0.

    Returns
    -------
    ndarray, shape (L, L)
    """
    root = np.sqrt([from_zero(f"rho[{i}]", float(r), "L layers") for i, r in enumerate(rho)])
    if not len(root):
        raise ValueError(f"rho must name at least one layer ({CITE}, L layers)")
    return np.asarray(np.eye(len(root)) + np.outer(root, root))


def prior_overlap(q_hat: ArrayLike, rho: Sequence[float], *, limit: str = "finite") -> Array:
    """Overlap q that qhat leaves: of S_l with its estimate, and of both with the other layers'.

    Parameters
    ----------
    q_hat : array_like, shape (L, L)
        Symmetric, positive semi-definite.
    rho : sequence of float
        Widths; in the limit "small" only their ratios to qhat count, in the limit "large" they set the mean alone.
    limit : {"finite", "small", "large"}, keyword-only

    Returns
    -------
    ndarray, shape (L, L)

    Raises
    ------
    ValueError
        qhat off the diagonal, where no closed form is known; a shape or a sign that is wrong.

    References
    ----------
    boncoraglio2025, L layers.
    """
    Q = joint_covariance(rho)
    layers = len(Q)
    field = np.asarray(q_hat, np.float64)
    if field.shape != (layers, layers) or not np.isfinite(field).all() or np.abs(field - field.T).max() > 1e-12:
        raise ValueError(f"q_hat must be a finite symmetric matrix {layers} x {layers} ({CITE}, L layers), got {field}")
    if np.linalg.eigvalsh(field)[0] < -1e-12:
        raise ValueError(f"q_hat must be positive semi-definite ({CITE}, L layers), got {field}")
    if limit == "large":
        return np.asarray(Q - np.linalg.inv(np.eye(layers) + field))
    if limit not in ("finite", "small"):
        raise ValueError(f'limit must be "finite", "small" or "large" ({CITE}, L layers), got {limit!r}')
    if np.abs(field - np.diag(field.diagonal())).max() > 0:
        raise ValueError(
            f"no closed form is known for q_hat with entries off the diagonal at this width ({CITE}, L layers): the "
            'layers are denoised together; pass a diagonal q_hat, or limit="large"'
        )
    widths = [above_zero(f"rho[{i}]", float(r), "L layers") for i, r in enumerate(rho)]
    if limit == "small":
        seen = [max(1 - r / v, 0.0) ** 2 if v > 0 else 0.0 for r, v in zip(widths, field.diagonal(), strict=True)]
        return np.diag(seen)
    q = Q - np.eye(layers)
    for i, (r, v) in enumerate(zip(widths, field.diagonal(), strict=True)):
        if v > 0:
            q[i, i] = Q[i, i] - mmse(r, 1 / float(v)).value
    return q


def network_matrix(h: ArrayLike, skip: float, beta: float = 1.0) -> Array:
    """Network matrix of several layers: B_l = [c I + softmax(beta B_{l-1} h^l B_{l-1}^T)] B_{l-1}, B_0 = I.

    Parameters
    ----------
    h : array_like, shape (L, n, T, T)
        Centred indices of each layer; without the centring the first layer would saturate (an assumption of this
        model).
    skip : float
        c >= 0.
    beta : float

    Returns
    -------
    ndarray, shape (n, T, T)
        B_L.
    """
    array = numbers("h", h)
    if array.ndim != 4 or array.shape[2] != array.shape[3] or not array.size or not np.isfinite(array).all():
        raise ValueError(f"h must be finite, of shape (L, n, T, T) ({CITE}, L layers), got {array.shape}")
    skip = from_zero("skip", skip, "L layers")
    output = Softmax(array.shape[2], beta)
    mixed = np.broadcast_to(np.eye(array.shape[2]), array.shape[1:])
    for layer in array:
        attention = output.observe(mixed @ layer @ mixed.swapaxes(1, 2))
        mixed = skip * mixed + attention @ mixed
    return np.asarray(mixed)


def deep_outputs(h: ArrayLike, skip: float, beta: float = 1.0) -> Array:
    """Outputs of the last of several layers, softmax(beta B_{L-1} h^L B_{L-1}^T).

    Parameters
    ----------
    h, skip, beta
        As in `network_matrix`.

    Returns
    -------
    ndarray, shape (n, T, T)
    """
    array = numbers("h", h)
    if array.ndim != 4 or not len(array) or array.shape[2] != array.shape[3]:
        raise ValueError(f"h must be finite, of shape (L, n, T, T) ({CITE}, L layers), got {array.shape}")
    mixed = network_matrix(array[:-1], skip, beta) if len(array) > 1 else np.eye(array.shape[2])
    scores = mixed @ numbers("h", array[-1]) @ mixed.swapaxes(-1, -2)
    if not np.isfinite(scores).all():
        raise ValueError(f"h must be finite, of shape (L, n, T, T) ({CITE}, L layers), got NaN or infinity")
    return Softmax(array.shape[2], beta).observe(scores)
