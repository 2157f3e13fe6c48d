"""The table of all exactly known thresholds: what is observed, where the formula holds, what derives it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import sympy as sp

from . import amplitudes, attention, directions, signs
from .level_sets import Threshold


@dataclass(frozen=True)
class ClosedForm:
    """One exactly known threshold.

    Attributes
    ----------
    name : str
    link : str
        What is observed.
    conditions : str
        Where the formula holds.
    derivation : callable
        Derives it; nothing is stored.
    expressions : tuple of str
        The link as expressions in the indices h[p], p = 1 .. P, where it is one.
    """

    name: str
    link: str
    conditions: str
    derivation: Callable[[], Threshold]
    expressions: tuple[str, ...] = ()

    @property
    def threshold(self) -> Threshold:
        """Formula and eigenvector, derived at the first use."""
        return _derived(self.derivation)

    @property
    def formula(self) -> sp.Expr:
        """The threshold alpha_c; ``sympy.Integral`` where one integral over a known function is left."""
        return self.threshold.alpha

    @property
    def eigenvector(self) -> sp.Matrix:
        """Direction that becomes unstable, Frobenius norm 1."""
        return self.threshold.eigenvector


@cache
def _derived(derivation: Callable[[], Threshold]) -> Threshold:
    return derivation()


_ANY = "M = 1"
_ENTRIES = (
    ClosedForm("tied_softmax", "softmax(h^T h)", "M >= 2 tokens, rank r < M", attention.single_layer(True, "softmax")),
    ClosedForm(
        "tied_softmax_wide",
        "softmax(h^T h)",
        "M >= 2 tokens, rank r >= M",
        attention.single_layer(True, "softmax", wide=True),
    ),
    ClosedForm(
        "tied_linear",
        "h^T h, or any strictly monotone function of its entries",
        "M >= 2 tokens, any rank r",
        attention.single_layer(True, "linear"),
    ),
    ClosedForm("untied_softmax", "softmax(k^T q)", "M >= 2 tokens, rank 1", attention.single_layer(False, "softmax")),
    ClosedForm(
        "untied_linear",
        "k^T q, or any strictly monotone function of its entries",
        "M >= 2 tokens, rank 1; one integral is left",
        attention.single_layer(False, "linear"),
    ),
    ClosedForm("hard_attention", "softmax(beta h^T h) at beta = oo", "M = 2 tokens, rank 1", attention.hard_attention),
    ClosedForm("sign_attention", "sign(h^T h), entry by entry", "M >= 2 tokens, rank 1", attention.sign_attention),
    ClosedForm(
        "even_attention",
        "f(h^T h) entry by entry, f(z) = f(-z), f injective on z >= 0",
        "M >= 2 tokens, rank 1",
        attention.even_attention,
    ),
    ClosedForm(
        "absolute",
        "|h_1|, h_1^2 or any even power",
        _ANY,
        amplitudes.absolute,
        (
            "abs(h[1])",
            "h[1]**2",
            "h[1]**4",
        ),
    ),
    ClosedForm(
        "identity",
        "h_1, h_1^3 or any odd power",
        _ANY,
        amplitudes.identity,
        (
            "h[1]",
            "h[1]**3",
        ),
    ),
    ClosedForm("sign", "sign(h_1)", _ANY, signs.sign, ("sign(h[1])",)),
    ClosedForm("door", "sign(|h_1| - t)", "M = 1, t > 0", amplitudes.door),
    ClosedForm(
        "sign_product",
        "sign(h_1 h_2)",
        _ANY,
        signs.sign_product,
        (
            "sign(h[1]*h[2])",
            "sign(h[1])*sign(h[2])",
        ),
    ),
    ClosedForm(
        "noisy_sign_product",
        "sign(h_1 h_2), flipped with probability epsilon",
        "M = 1, 0 <= epsilon < 1/2",
        signs.noisy_sign_product,
    ),
    ClosedForm(
        "sign_triple_product",
        "sign(h_1 h_2 h_3)",
        _ANY,
        signs.sign_triple,
        (
            "sign(h[1]*h[2]*h[3])",
            "sign(h[1])*sign(h[2])*sign(h[3])",
        ),
    ),
    ClosedForm("committee_two", "sign(h_1) + sign(h_2)", _ANY, signs.committee_two, ("sign(h[1]) + sign(h[2])",)),
    ClosedForm(
        "committee_three",
        "sign(h_1) + sign(h_2) + sign(h_3)",
        _ANY,
        signs.committee_three,
        ("sign(h[1]) + sign(h[2]) + sign(h[3])",),
    ),
    ClosedForm("all_equal", "whether sign(h_1) = sign(h_2) = sign(h_3)", _ANY, signs.all_equal),
    ClosedForm("maximum", "max(h_1, h_2)", _ANY, amplitudes.maximum, ("max(h[1], h[2])",)),
    ClosedForm("radial", "h_1^2 + .. + h_P^2", _ANY, amplitudes.radial),
    ClosedForm("radial_two", "h_1^2 + h_2^2", _ANY, amplitudes.radial_two, ("h[1]**2 + h[2]**2",)),
    ClosedForm("ratio", "h_1/h_2", _ANY, directions.ratio, ("h[1]/h[2]",)),
    ClosedForm(
        "absolute_ratio", "|h_1/h_2|, or h_1 h_2/(h_1^2 + h_2^2)", _ANY, directions.absolute_ratio, ("abs(h[1]/h[2])",)
    ),
    ClosedForm("direction_three", "h_1 : h_2 : h_3", _ANY, directions.direction_three),
    ClosedForm(
        "square_with_sign", "h_1^2 sign(h_1 h_2)", _ANY, directions.square_with_sign, ("h[1]**2*sign(h[1]*h[2])",)
    ),
    ClosedForm(
        "largest_of_two", "argmax(|h_1|, |h_2|)", _ANY, directions.largest_of_two, ("argmax([abs(h[1]), abs(h[2])])",)
    ),
    ClosedForm(
        "largest_of_three",
        "argmax(|h_1|, |h_2|, |h_3|)",
        _ANY,
        directions.largest_of_three,
        ("argmax([abs(h[1]), abs(h[2]), abs(h[3])])",),
    ),
    ClosedForm(
        "product",
        "h_1 h_2, or h_1^2 - h_2^2",
        "M = 1; one integral is left",
        amplitudes.product,
        (
            "h[1]*h[2]",
            "h[1]**2 - h[2]**2",
        ),
    ),
    ClosedForm(
        "absolute_product", "|h_1 h_2|", "M = 1; one integral is left", amplitudes.absolute_product, ("abs(h[1]*h[2])",)
    ),
)
#: All entries by name.
TABLE: dict[str, ClosedForm] = {entry.name: entry for entry in _ENTRIES}


def find(name: str) -> ClosedForm:
    """Return the entry of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists the names.

    Examples
    --------
    >>> find("sign_product").formula
    pi**2/4
    """
    if name not in TABLE:
        raise ValueError(f"no closed form is named {name!r}; there are {', '.join(TABLE)}")
    return TABLE[name]
