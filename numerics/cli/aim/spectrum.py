"""The verb `aim spectrum`: eigenvalues that the matrix denoiser sees, and how it shrinks them."""

import argparse
import math

import attnlimits as al

from ...core.decimals import pm, recorded, to_error
from ...core.errors import ConvergenceError
from ...core.results import as_dict
from ..plot import check_plot, plot_flag, plotted
from ..verbs import Outcome, Verbs, add_verb
from .flags import channel_flags, channel_of, head_of, heads_flag, heads_of, width_of

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "spectrum",
        run,
        "spectrum of S with noise: its support, density, and the optimal shrinkage of eigenvalues",
        "attnlimits aim spectrum --rho 0.5 --delta 0.1 --at 0 1 2",
        nested=True,
    )
    parser.needs(parser.add_argument("--rho", type=float, help="width r/d"))
    parser.add_argument("--delta", type=float, help="variance of the noise, of heads that on L^(-1/2) sum_l S_l")
    parser.add_argument(
        "--alpha", "-a", type=float, help="n/d^2: instead of --delta, the noise 1/qhat of the fixed point there"
    )
    channel_flags(parser)
    heads_flag(parser)
    parser.check = channel_of
    parser.add_argument("--at", type=float, nargs="+", metavar="X", help="eigenvalues at which to print both")
    plot_flag(parser, "density and shrinkage")


def run(args: argparse.Namespace) -> Outcome:
    """Support, density and shrinkage."""
    if (args.delta is None) == (args.alpha is None):
        raise ValueError("give --delta, the noise, or --alpha, whose fixed point has one")
    check_plot(args)
    output, delta, width, heads = channel_of(args), args.delta, width_of(args), heads_of(args)
    within: tuple[float, ...] = ()
    if delta is None:
        point = al.aim.evolve(args.alpha, width, output)
        if not (math.isfinite(point.q_hat) and point.q_hat > 0):
            what = "S is recovered" if point.q_hat else "nothing is learned"
            raise ValueError(f"at --alpha {args.alpha:g} {what}, and there is no noise to denoise from; give --delta")
        if point.bracket[0] <= 0:
            raise ConvergenceError(
                f"at --alpha {args.alpha:g} S is recovered, to within rounding, which leaves the noise open; give "
                "--delta"
            )
        delta, within = 1 / point.q_hat, point.bracket
    found = al.aim.spectrum(width, delta, at=args.at, within=within)
    record = as_dict(found) | {
        "value": recorded(found.edges[-1, 1], found.edge_error),
        "quantity": "largest edge of the support",
        "error": found.edge_error,
        "how": "estimated",
        "converged": True,
        "model": f"S + sqrt(Delta) GOE, {f'heads={heads}, ' if heads > 1 else ''}rho={args.rho:g}, Delta={delta:g}",
    }
    lines = [str(record["model"])]
    edges = ([to_error(end, found.edge_error, digits=12) for end in pair] for pair in found.edges)
    lines += [f"support: {low} to {high}, error {found.edge_error:.1e}" for low, high in edges]
    lines.append(
        f"MMSE = {to_error(found.mmse.value, found.mmse.error, digits=12)}, error {found.mmse.error:.1e} (estimated)"
    )
    if heads > 1:
        one = head_of(args, found.mmse)
        record |= {"heads": heads, "rho": args.rho, "head": as_dict(one)}
        lines[-1] = lines[-1].replace("MMSE", "MMSE of S = L^(-1/2) sum_l S_l", 1)
        lines.append(f"MMSE of each head: {pm(one.value, one.error)}")
    if args.at is not None:
        found_at = (found.x, found.density, found.density_error, found.shrunk, found.shrunk_error)
        lines += [
            f"x = {x:g}: density {_said(density, off)}, estimate {_said(shrunk, off_shrunk)}"
            for x, density, off, shrunk, off_shrunk in zip(*found_at, strict=True)
        ]
    return record, plotted(args, found.plot, "\n".join([*lines, found.status])), True


def _said(value: float, error: float) -> str:
    """A number with what the range of the noise leaves open of it, if that is more than its last digit."""
    return pm(value, error) if error > 1e-10 * abs(value) else f"{value:.10g}"
