"""The number at the end of the page of `explain`: the weak-recovery threshold, by the function of `threshold`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import attnlimits as al

from ..core.errors import ConvergenceError
from ..core.progress import Bar
from ..core.results import How, ThresholdResult
from ..model.network import Network
from ..model.routes import BALLS, CHART_OPERATOR, PAIRS, preferred
from .block_flags import is_listed, listed
from .flags import SYMBOLIC_DEFAULTS, link_of, readouts_of
from .verbs import shown

if TYPE_CHECKING:
    from ..thresholds.link.thresholds import LinkThreshold

__all__ = ["ThresholdLine", "threshold_line"]

_Threshold: TypeAlias = "ThresholdResult | LinkThreshold"

# Digits where each takes longer; entries of the indices up to which a threshold on a chart takes a minute.
_DIGITS, _MOST_ENTRIES = 6, 48


@dataclass(frozen=True)
class ThresholdLine:
    """A threshold with its error, or the reason why there is none.

    Attributes
    ----------
    at : str
        The numbers that the symbols have.
    value, error, how, exact, subspace
        As of a `ThresholdResult`; None without a number.
    reason : str or None
        Why there is no number.
    """

    at: str
    value: str | None = None
    error: float | None = None
    how: How | None = None
    exact: str | None = None
    subspace: str | None = None
    reason: str | None = None

    @property
    def text(self) -> str:
        """The end of the page."""
        return self._line("alpha_c", " +- ")

    @property
    def latex(self) -> str:
        """The same in LaTeX."""
        return self._line(r"$\alpha_c$", r" $\pm$ ")

    def _line(self, alpha: str, pm: str) -> str:
        if self.value is None:
            return f"at {self.at}: no threshold here: {self.reason}"
        kind = f"{self.how}; exactly {self.exact}" if self.exact else self.how
        return f"at {self.at}: {alpha} of {self.subspace} = {self.value}{pm}{self.error:.1e} ({kind})"


def threshold_line(args: argparse.Namespace) -> ThresholdLine:
    """Threshold of the flags of `explain`, whose symbols are 1 unless they are given."""
    if args.link is not None:
        noise = {"noise": args.noise, "label noise": args.label_noise}
        at = ", ".join(f"{name} {text}" for name, text in noise.items() if text != "0") or "no noise"
        return _found(args, at, lambda _: al.threshold(link_of(args)))
    if is_listed(args):
        network = listed(args, {**SYMBOLIC_DEFAULTS, "layers": 2, "tokens": 2})
        return _found(args, network.describe(), lambda _: al.threshold(network))
    skip, beta = (1.0 if text is None else float(Fraction(text)) for text in (args.skip, args.beta))
    at = f"beta = {beta:g}" if args.layers == 1 else f"c = {skip:g}, beta = {beta:g}"
    output = args.output if args.layers > 1 else "last"
    model = Network(
        args.layers, args.tokens, args.rank, skip, beta, args.activation, tied=not args.untied, output=output
    )
    # Heads of several layers that do not mix are one of them.
    if args.layers > 1 and args.heads > 1:
        at += ", o = I"
    route = preferred("last layer", model)
    if route == CHART_OPERATOR and model.indices * model.tokens > _MOST_ENTRIES:
        return ThresholdLine(at, reason="it takes minutes for this model; `attnlimits threshold` computes it")
    digits = _DIGITS if route in (BALLS, PAIRS) else None
    if args.layers == 1:
        return _found(args, at, lambda _: al.threshold(model, heads=args.heads, output=args.output))
    whole = model if args.heads == 1 else replace(model, heads=args.heads, readouts=readouts_of(args))
    return _found(args, at, lambda bar: al.threshold(whole, digits=digits, progress=bar.to))


def _found(args: argparse.Namespace, at: str, threshold: Callable[[Bar], _Threshold]) -> ThresholdLine:
    """The line of a threshold, or of the reason why there is none."""
    try:
        with Bar("threshold (--no-number leaves it out)", show=shown(args)) as bar:
            found = threshold(bar)
    except (ValueError, ConvergenceError) as error:
        return ThresholdLine(at, reason=str(error))
    if found.value is None:
        return ThresholdLine(at, reason=found.status)
    return ThresholdLine(at, found.value, found.error, found.how, found.exact, found.subspace)
