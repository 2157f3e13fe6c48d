"""What `attnlimits aim` does: attention of extensive width."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..aim.checks import ACTIVATIONS
from ..core.array_files import read_array, write_array
from ..core.decimals import pm, recorded
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.results import as_dict
from .figure import aim_figure_flags, aim_figures

if TYPE_CHECKING:
    from ..aim.channels import Channel
    from ..aim.results import AMPStep

__all__ = ["aim_flags", "run"]

Outcome = tuple[dict[str, Any], str, bool]


def aim_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the model, each with its flags."""
    verbs = parser.add_subparsers(dest="aim_verb", required=True, metavar="VERB", parser_class=type(parser))

    def verb(name: str, run: Callable[[argparse.Namespace], Outcome], help_: str, example: str) -> Any:
        sub = verbs.add_parser(
            name, help=help_, description=help_[0].upper() + help_[1:] + ".", epilog=f"example: {example}"
        )
        # Without a default of its own it leaves alone what was said before the verb.
        sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
        sub.set_defaults(run=run)
        return sub

    evolve = verb(
        "evolve",
        _evolve,
        "estimation error at one alpha or along a range of it",
        "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
    )
    _channel_flags(evolve)
    evolve.add_argument(
        "--alpha", type=float, nargs="+", required=True, help="n/d^2, one or several; alpha/rho where --rho is 0"
    )
    evolve.add_argument("--rho", type=float, required=True, help="width r/d; 0 is the limit of small width")

    threshold = verb(
        "threshold",
        _threshold,
        "perfect recovery at a width, or weak recovery in the limit of small width",
        "attnlimits aim threshold --activation hardmax --digits 20",
    )
    _channel_flags(threshold)
    threshold.add_argument("--rho", help="width r/d, exactly as 0.1 or 1/3; without it, weak recovery at small width")
    threshold.add_argument(
        "--digits",
        type=int,
        help="significant digits (default: 15; at most 10 for weak recovery of hardmax of more than two tokens)",
    )

    denoise = verb(
        "denoise",
        _denoise,
        "the matrix denoiser: its error, and the estimate of a matrix of your own",
        "attnlimits aim denoise --rho 0.5 --delta 0.1 --digits 30",
    )
    denoise.add_argument("--rho", required=True, help="width r/d, exactly as 0.1 or 1/3")
    denoise.add_argument("--delta", required=True, help="variance of the noise, likewise")
    denoise.add_argument("--digits", type=int, help="significant digits, to 200 (default: those of float64)")
    denoise.add_argument("--y", type=Path, metavar="FILE", help="symmetric matrix to denoise, a .npy file")
    denoise.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, as .npy")

    amp = verb(
        "amp",
        _amp,
        "S estimated from data by approximate message passing, of a random teacher or of your own",
        "attnlimits aim amp --rho 0.5 --alpha 0.1 --dimension 60 --seeds 2",
    )
    _channel_flags(amp)
    amp.add_argument("--rho", type=float, required=True, help="width r/d")
    amp.add_argument("--alpha", type=float, help="n/d^2, of instances of a teacher")
    amp.add_argument("--dimension", type=int, metavar="d", help="of instances of a teacher")
    amp.add_argument("--seeds", type=int, default=4, help="instances (default: %(default)s)")
    amp.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    amp.add_argument("--x", type=Path, metavar="FILE", help="tokens (n, T, d), a .npy file")
    amp.add_argument("--y", type=Path, metavar="FILE", help="outputs (n, T, T), a .npy file")
    amp.add_argument("--log-outputs", action="store_true", help="--y holds log y of softmax, which does not underflow")
    amp.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, as .npy")
    amp.add_argument("--damping", type=_damping, default="adaptive", help="in [0, 1), or adaptive (default)")
    amp.add_argument(
        "--covariance", choices=("gram", "scalar"), default="gram", help="of each sample, or its limit (default: gram)"
    )
    amp.add_argument("--max-iter", type=int, default=200, help="iterations (default: %(default)s)")
    amp.add_argument("--tol", type=float, default=1e-5, help="on the step ||dS||^2/d (default: %(default)s)")

    aim_figure_flags(
        verb("figure", aim_figures, "make the five figures of the paper, or some of them", "attnlimits aim figure 2 4")
    )


def run(args: argparse.Namespace) -> Outcome:
    """Say which verbs there are: the parser asks for one, and each has its own function."""
    raise ValueError("aim needs a verb: evolve, threshold, denoise, amp or figure")


def _channel_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--activation", default="softmax", help=f"{', '.join(ACTIVATIONS)} (default: softmax)")
    parser.add_argument("--tokens", type=int, default=2, metavar="T", help="tokens (default: %(default)s)")
    parser.add_argument("--beta", type=float, default=1.0, help="inverse temperature of softmax (default: 1)")
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        help="of linear outputs, variance over 1 + delta_ab (default: 0)",
    )


def _damping(text: str) -> float | str:
    if text == "adaptive":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected a number in [0, 1) or "adaptive", got {text!r}') from None


def _channel(args: argparse.Namespace) -> "Channel":
    from ..aim.channels import channel
    from ..aim.checks import above_zero

    # Also where the channel would not use it.
    above_zero("beta", args.beta, "softmax")
    return channel(args.activation, args.tokens, args.beta, args.noise)


def _name(args: argparse.Namespace, rho: object) -> str:
    width = "small width" if rho == 0 or rho is None else f"rho={rho}"
    noise = f", noise={args.noise:g}" if args.noise else ""
    return f"attention-indexed model, {args.activation}, T={args.tokens}, {width}{noise}"


def _evolve(args: argparse.Namespace) -> Outcome:
    from ..aim.state_evolution import curve

    output = _channel(args)
    name = _name(args, f"{args.rho:g}" if args.rho else 0)
    bar = Bar("aim evolve", show=True)
    done: list[Any] = []

    def tick(point: Any) -> None:
        done.append(point)
        bar.to(len(done), len(args.alpha))

    points = curve(args.alpha, args.rho, output, progress=tick)
    bar.close()
    last = points[-1]
    record = as_dict(last) | {
        "value": recorded(last.mmse.value, last.mmse.error),
        "error": float(last.mmse.error),
        "how": last.mmse.how,
        "model": name,
    }
    if len(points) > 1:
        record["points"] = as_dict(points)
    letter = "alpha" if args.rho else "alpha/rho"
    lines = [name]
    for p in points:
        lines.append(f"{letter} = {p.alpha:g}: MMSE = {pm(p.mmse.value, p.mmse.error)}")
    return record, "\n".join([*lines, last.status]), all(p.converged for p in points)


def _threshold(args: argparse.Namespace) -> Outcome:
    from ..aim.thresholds import hardmax_tail, perfect_recovery, weak_recovery

    output = _channel(args)
    name = _name(args, args.rho)
    weak = args.rho is None
    digits = 15 if args.digits is None else args.digits
    found = weak_recovery(output, digits=args.digits) if weak else perfect_recovery(args.rho, output, digits=digits)
    status = "sum over all labels" if found.exact is None else "closed form"
    record = as_dict(found) | {"model": name, "mmse": 1.0 if weak else 0.0, "converged": True, "status": status}
    lines = [name, f"{found.quantity}: {found.value}"]
    if found.value == "inf":
        # As of links: no number, and the symbol of infinity where that is proved.
        record |= {"value": None, "exact": "oo"}
        if output.name == "hardmax":
            tail = hardmax_tail(args.rho, tokens=args.tokens, digits=min(digits, 15))
            lines.append(f"at large alpha MMSE = {tail}/alpha^2")
            record["tail"] = tail
    elif found.exact is None:
        lines.append(f"error {found.error:.1e} ({found.how})")
    else:
        lines.append(f"exactly {found.exact}")
    return record, "\n".join(lines), True


def _denoise(args: argparse.Namespace) -> Outcome:
    from ..aim.precise import exact_number, mmse_digits
    from ..aim.spectrum import mmse

    rho = exact_number("rho", args.rho, "rho = r/d")
    delta = exact_number("Delta", args.delta, "noise of the matrix denoiser")
    if args.out is not None and args.y is None:
        raise ValueError("--out is for the estimate of a matrix; give the matrix with --y")
    args.out = output_file(args.out, ".npy")
    name = f"S + sqrt(Delta) GOE, rho={args.rho}, Delta={args.delta}"
    if args.digits is None:
        plain = mmse(float(rho), float(delta))
        text, error = repr(float(plain.value)), float(plain.error)
    else:
        precise = mmse_digits(rho, delta, digits=args.digits)
        text, error = precise.value, precise.error
    record: dict[str, Any] = {
        "value": text,
        "error": error,
        "how": "estimated",
        "mmse": float(text),
        "converged": True,
        "status": "converged: quadrature refined until two rules agree",
        "model": name,
    }
    lines = [name, f"MMSE = {text}", f"error {error:.1e} (estimated)"]
    if args.y is not None:
        _estimate(args, float(rho), float(delta), record, lines)
    return record, "\n".join(lines), True


def _estimate(args: argparse.Namespace, rho: float, delta: float, record: dict[str, Any], lines: list[str]) -> None:
    from ..aim.rie import denoise_matrix

    found = denoise_matrix(read_array("--y", args.y), rho, delta)
    record["divergence"] = found.divergence
    lines.append(f"error that the estimate of {args.y.name} expects of itself: {found.divergence:.6f}")
    if args.out is None:
        record["estimate"] = found.estimate.tolist()
        return
    write_array(args.out, found.estimate)
    record["out"] = str(args.out)
    lines.append(f"wrote {args.out}")


def _check_amp(args: argparse.Namespace) -> bool:
    """Refuse flags that do not go together; whether the data are the user's own."""
    own = args.x is not None or args.y is not None
    if own:
        for flag in ("x", "y"):
            if getattr(args, flag) is None:
                raise ValueError(f"--{flag} is missing: --x and --y go together")
        for flag in ("alpha", "dimension"):
            if getattr(args, flag) is not None:
                raise ValueError(f"--{flag} describes instances of a teacher; leave it out where --x and --y are given")
        if args.log_outputs and args.activation != "softmax":
            raise ValueError(f"--log-outputs is for softmax outputs, got --activation {args.activation}")
        args.out = output_file(args.out, ".npy")
        return True
    if args.log_outputs:
        raise ValueError("--log-outputs describes --y; instances of a teacher are given in logarithms anyway")
    if args.alpha is None or args.dimension is None:
        raise ValueError("give --alpha and --dimension for instances of a teacher, or --x and --y for your data")
    if not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    for flag, least in (("seeds", 1), ("seed", 0), ("dimension", 2)):
        if getattr(args, flag) < least:
            raise ValueError(f"--{flag} must be >= {least}, got {getattr(args, flag)}")
    if args.out is not None:
        raise ValueError("--out is for the estimate from --x and --y; instances of a teacher are summarised")
    return False


def _amp(args: argparse.Namespace) -> Outcome:
    own = _check_amp(args)
    output = _channel(args)
    if args.activation == "softmax" and (args.log_outputs or not own):
        from ..aim.channels import Softmax

        # Instances come with log y, which does not underflow at any beta.
        output = Softmax(args.tokens, args.beta, logarithms=True)
    settings = {
        "damping": args.damping,
        "covariance": args.covariance,
        "max_iter": args.max_iter,
        "tol": args.tol,
    }
    name = _name(args, f"{args.rho:g}")
    return _own(args, output, name, settings) if own else _instances(args, output, name, settings)


def _own(args: argparse.Namespace, output: "Channel", name: str, settings: dict[str, Any]) -> Outcome:
    from ..aim.amp import amp

    x, y = read_array("--x", args.x), read_array("--y", args.y)
    bar = Bar("aim amp", show=True)

    def tick(step: "AMPStep") -> None:
        bar.to(step.iteration, args.max_iter)

    found = amp(x, y, output, args.rho, callback=tick, **settings)
    bar.close()
    record = as_dict(found) | {
        "value": recorded(found.predicted, found.predicted_error),
        "quantity": "error ||S - Shat||^2/d that the algorithm states of itself",
        "error": found.predicted_error,
        "model": name,
    }
    own = "not known" if found.predicted_error is None else pm(found.predicted, found.predicted_error)
    lines = [
        name,
        f"alpha = {found.alpha:g}, d = {len(found.estimate)}",
        f"error ||S - Shat||^2/d that the algorithm states of itself: {own}",
        f"V = {found.V:.6g}",
        found.status,
    ]
    if args.out is not None:
        write_array(args.out, found.estimate)
        del record["estimate"]
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    return record, "\n".join(lines), found.converged


def _instances(args: argparse.Namespace, output: "Channel", name: str, settings: dict[str, Any]) -> Outcome:
    import numpy as np

    from ..aim.amp import amp
    from ..aim.data import instance, refuse_size, teacher
    from ..aim.state_evolution import evolve
    from ..core.standard_error import standard_error

    asked = f"--dimension {args.dimension} at --alpha {args.alpha:g} with --tokens {args.tokens}"
    refuse_size(args.alpha, args.dimension, args.tokens, asked, scalar=args.covariance == "scalar")
    expected = evolve(args.alpha, args.rho, output)
    bar = Bar("aim amp", show=True)
    found = []
    for number, seed in enumerate(range(args.seed, args.seed + args.seeds)):

        def tick(step: "AMPStep", number: int = number) -> None:
            bar.to(number * args.max_iter + step.iteration, args.seeds * args.max_iter)

        S = teacher(args.dimension, args.rho, seed)
        x, y = instance(S, args.alpha, output, seed)
        found.append(amp(x, y, output, args.rho, teacher=S, seed=seed, callback=tick, **settings))
    bar.close()
    errors = np.array([r.mmse for r in found])
    mean = float(errors.mean())
    spread = float(standard_error(errors)) if len(errors) > 1 else None
    done = sum(r.converged for r in found)
    status = f"converged: {done} of {len(found)} instances"
    if done < len(found):
        status = f"not converged: {len(found) - done} of {len(found)} instances; raise --max-iter or --tol"
    record = {
        "value": recorded(mean, spread),
        "error": spread,
        "how": "monte-carlo",
        "mmse": mean,
        "state_evolution": as_dict(expected.mmse),
        "errors": errors.tolist(),
        "predicted": [r.predicted for r in found],
        "predicted_error": [r.predicted_error for r in found],
        "n_iter": [r.n_iter for r in found],
        "converged": done == len(found),
        "status": status,
        "alpha": args.alpha,
        "rho": args.rho,
        "dimension": args.dimension,
        "seeds": len(found),
        "seed": args.seed,
        "model": name,
        "versions": found[0].versions,
    }
    lines = [
        name,
        f"alpha = {args.alpha:g}, d = {args.dimension}, {len(found)} instances",
        f"error: {pm(mean, spread)} (state evolution: {expected.mmse.value:.4g})",
        status,
    ]
    return record, "\n".join(lines), done == len(found)
