"""Ranges of h_2 = B_1(x)^{-1} v over boxes of x for arrays of boxes, without branches: `ranges` for a GPU.

Functions of ((vp, vm), c, beta, (xp_low, xp_high), (xm_low, xm_high)), arrays of one shape, in token modes; they return
(a_low, a_high, b_low, b_high), an enclosure of both modes of h_2 up to rounding.
"""

from attnlimits.generated.pair_softmax_m2.numpy64 import ratios

from .backend import jnp, on_jax
from .tensor import Tensor

__all__ = ["BOXES", "gap"]

Interval = tuple[Tensor, Tensor]

# s/(c + tau) and 1/(c + tau) for u, w >= 0.
_ratios = on_jax(ratios)


def gap(low: Tensor, high: Tensor) -> Tensor:
    """Distance of zero from intervals."""
    return jnp.maximum(jnp.maximum(low, -high), 0.0)


def _signed(low: Tensor, high: Tensor, x: Interval, y: Interval) -> Interval:
    """Range of sign(x y) t, for t in [low, high] and x, y in their intervals."""
    (x0, x1), (y0, y1) = x, y
    positive = ((x0 >= 0) & (y0 >= 0)) | ((x1 <= 0) & (y1 <= 0))
    negative = ((x0 >= 0) & (y1 <= 0)) | ((x1 <= 0) & (y0 >= 0))
    return jnp.where(positive, low, -high), jnp.where(negative & ~positive, -low, high)


def _between(first: Tensor, second: Tensor) -> Interval:
    return jnp.minimum(first, second), jnp.maximum(first, second)


def _softmax(v: tuple[Tensor, Tensor], c: Tensor, beta: Tensor, x: Interval, y: Interval) -> tuple[Tensor, ...]:
    """Use monotonicity: tau grows with u = beta xm^2 and falls with |w|, w = beta xp xm; |s|/(c + tau) the reverse."""
    (vp, vm), (x0, x1), (y0, y1) = v, x, y
    near_x, near_y = gap(x0, x1), gap(y0, y1)
    far_x, far_y = jnp.maximum(jnp.abs(x0), jnp.abs(x1)), jnp.maximum(jnp.abs(y0), jnp.abs(y1))
    s_low, inverse_low = _ratios(beta * far_y * far_y, beta * near_x * near_y, c)
    s_high, inverse_high = _ratios(beta * near_y * near_y, beta * far_x * far_y, c)
    low, high = _signed(s_low, s_high, x, y)
    a = _between((vp - vm * low) / (1.0 + c), (vp - vm * high) / (1.0 + c))
    return *a, *_between(vm * inverse_high, vm * inverse_low)


def _linear(v: tuple[Tensor, Tensor], c: Tensor, beta: Tensor, x: Interval, y: Interval) -> tuple[Tensor, ...]:
    """Bound the three fractions of h_2 = (v - x (x.v)/(c/beta + |x|^2))/c by their monotonicity in |xp| and |xm|."""
    (vp, vm), (x0, x1), (y0, y1) = v, x, y
    d = c / beta
    near_x, near_y = gap(x0, x1) ** 2, gap(y0, y1) ** 2
    far_x, far_y = jnp.maximum(x0 * x0, x1 * x1), jnp.maximum(y0 * y0, y1 * y1)
    mixed = jnp.minimum(
        jnp.sqrt(far_x * far_y) / (d + near_x + near_y),
        0.5 * jnp.minimum(jnp.sqrt(far_y / (d + far_y)), jnp.sqrt(far_x / (d + far_x))),
    )
    low, high = _signed(jnp.sqrt(near_x * near_y) / (d + far_x + far_y), mixed, x, y)

    def bounds(own: Tensor, other: Tensor, keep_low: Tensor, keep_high: Tensor) -> Interval:
        kept, taken = _between(own * keep_low, own * keep_high), _between(other * low, other * high)
        return (kept[0] - taken[1]) / c, (kept[1] - taken[0]) / c

    # 1 - xp^2/(..) = (d + xm^2)/(..), and likewise for xm.
    a = bounds(vp, vm, (d + near_y) / (d + near_y + far_x), (d + far_y) / (d + far_y + near_x))
    return *a, *bounds(vm, vp, (d + near_x) / (d + near_x + far_y), (d + far_x) / (d + far_x + near_y))


BOXES = {"softmax": _softmax, "linear": _linear}
