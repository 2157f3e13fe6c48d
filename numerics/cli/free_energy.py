"""What `attnlimits free-energy` and `attnlimits landscape` do."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.decimals import pm, recorded
from ..core.destinations import output_file
from ..core.progress import Bar
from ..core.results import Origin, as_dict, save
from .flags import (
    MODEL_DEFAULTS,
    attention,
    check_output,
    check_points,
    check_sampling,
    is_attention,
    link_flags,
    model_flags,
    refuse_model_flags,
    sampling_flags,
)

if TYPE_CHECKING:
    from ..free_energy import FreeEntropy, OutputEntropy, Prior, StationaryPoint

__all__ = ["free_energy", "free_energy_flags", "landscape", "landscape_flags"]

Outcome = tuple[dict[str, Any], str, bool]


def free_energy_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `free-energy`."""
    _shared(parser)
    group = parser.add_argument_group("free energy")
    group.add_argument(
        "--transitions",
        action="store_true",
        help="instead of one alpha: where branches begin and end, and where the global maximum changes (one overlap)",
    )
    sampling_flags(parser, samples=1024)


def landscape_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `landscape`."""
    _shared(parser)
    group = parser.add_argument_group("landscape")
    group.add_argument("--out", type=Path, required=True, metavar="F.png", help="picture; the values go to F.json")
    group.add_argument("--points", type=int, default=9, help="evaluations along each axis (default: %(default)s)")
    group.add_argument("--top", type=float, default=0.99, help="largest overlap (default: %(default)s)")
    sampling_flags(parser, samples=1024)


def _shared(parser: argparse.ArgumentParser) -> None:
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("inference")
    group.add_argument("--alpha", type=float, help="samples per dimension, N/D")
    group.add_argument(
        "--prior", choices=["gaussian", "binary", "sparse"], default="gaussian", help="of the weights' entries"
    )
    group.add_argument("--density", type=float, help="share of entries that are not zero, with --prior sparse")
    group.add_argument(
        "--accuracy", type=float, default=1e-2, help="of two softmax layers' averages, relative (default: %(default)s)"
    )
    group.add_argument(
        "--starts", type=int, default=2, help="random starts where several overlaps are free (default: %(default)s)"
    )


def free_energy(args: argparse.Namespace) -> Outcome:
    """Stationary points at one alpha, or the transitions."""
    _check(args)
    if args.transitions and args.alpha is not None:
        raise ValueError("--transitions finds all alphas; leave out --alpha")
    output, name = _output(args)
    prior = _prior(args)
    about = {"model": name, "prior": prior.describe(), "route": output.route, "origin": _origin(output, args)}
    if args.transitions:
        return _transitions(output, prior, about)
    from ..free_energy import FreeEntropy
    from ..free_energy.theorem import bayes_optimal

    free = FreeEntropy(output, args.alpha, prior)
    points, status, converged = _points(free, args)
    best = points[0]
    optimal = bayes_optimal(free, best, rng=args.seed)
    finite = math.isfinite(best.free_entropy.value)
    record = about | {
        "alpha": args.alpha,
        "value": recorded(best.free_entropy.value, best.free_entropy.error) if finite else None,
        "error": best.free_entropy.error,
        "how": best.free_entropy.how,
        "overlap": best.overlap,
        "overlap_error": best.overlap_error,
        "stationary": points,
        "optimal": optimal,
        "converged": converged,
        "status": status,
    }
    lines = [f"{name}; {prior.describe()}", f"alpha = {args.alpha:g}"]
    lines += [_line(point) + ("; the global maximum" if point is best else "") for point in points]
    mean, plugin = optimal.prediction_error, optimal.plugin_error
    lines.append(
        f"prediction error: {pm(mean.value, mean.error)} (posterior mean), {pm(plugin.value, plugin.error)} (plug-in)"
    )
    if optimal.information is not None:
        lines.append(f"information in a sample: {pm(optimal.information.value, optimal.information.error)} nats")
    return as_dict(record), "\n".join([*lines, status]), converged


def landscape(args: argparse.Namespace) -> Outcome:
    """Values and picture of Phi over the overlaps."""
    _check(args)
    check_points(args.points)
    if args.out.suffix not in (".png", ".pdf", ".svg"):
        raise ValueError(f"--out must end in .png, .pdf or .svg, got {args.out.name}")
    for suffix in (None, ".json"):
        output_file(args.out, suffix, make=True)
    output, name = _output(args)
    prior = _prior(args)
    from ..free_energy import FreeEntropy
    from ..free_energy.landscape import draw
    from ..free_energy.landscape import landscape as grid

    free = FreeEntropy(output, args.alpha, prior)
    bar = Bar("landscape", show=True)
    try:
        record = grid(free, points=args.points, top=args.top, progress=bar.to)
    finally:
        bar.close()
    points, status, converged = _points(free, args)
    about = {"model": name, "prior": prior.describe(), "route": output.route, "alpha": args.alpha}
    about["origin"] = _origin(output, args)
    path = args.out.with_suffix(".json")
    save(path, about | record | {"stationary": points, "converged": converged, "status": status})
    draw(record, points, output.groups, f"{name}; {prior.describe()}; alpha = {args.alpha:g}", args.out)
    best = points[0].free_entropy
    summary = about | {
        "value": recorded(best.value, best.error) if math.isfinite(best.value) else None,
        "error": best.error,
        "how": best.how,
        "grid_error": record["error"],
        "files": [str(args.out), str(path)],
        "stationary": points,
        "converged": converged,
        "status": status,
    }
    lines = [f"{name}; {prior.describe()}", f"alpha = {args.alpha:g}", *(_line(p) for p in points)]
    return as_dict(summary), "\n".join([*lines, status, f"wrote {args.out}", f"wrote {path}"]), converged


def _check(args: argparse.Namespace) -> None:
    check_sampling(args)
    check_output(args)
    if args.alpha is None and not getattr(args, "transitions", False):
        raise ValueError("--alpha is needed: samples per dimension, N/D")
    if args.alpha is not None and not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    if not 1e-10 <= args.accuracy <= 1e-2:
        raise ValueError(f"--accuracy must be in [1e-10, 0.01], got {args.accuracy:g}")
    if args.starts < 0:
        raise ValueError(f"--starts must be >= 0, got {args.starts}")
    if (args.density is None) == (args.prior == "sparse"):
        raise ValueError("--density belongs to --prior sparse, and is needed there")
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS)
    elif args.noise != "0":
        raise ValueError("--noise belongs to --link EXPR; attention models have no noise")


def _output(args: argparse.Namespace) -> tuple["OutputEntropy", str]:
    """Psi_out of the flags, and the name of its model."""
    model: Any
    noiseless = None
    if args.link is not None:
        from ..model.link_kernels import kernel_of, noiseless_of

        model = kernel_of(args.link, noise=args.noise)
        noiseless = noiseless_of(model, args.link)
    elif args.layers == 1 and args.untied and args.heads == 1:
        from ..posterior.fibres import LastLayer

        model = LastLayer(args.tokens, args.rank, args.activation, False, args.beta)
    else:
        verb = args.verb if is_attention(args) else "free-energy"
        model = attention(args, verb)
    from ..free_energy import output_entropy

    effort = {"accuracy": args.accuracy, "samples": args.samples, "replicas": args.replicas}
    found = output_entropy(model, **effort, rng=args.seed, workers=args.workers, noiseless=noiseless)
    return found, model.describe()


def _origin(output: "OutputEntropy", args: argparse.Namespace) -> Origin:
    names = ("prior", "density", "accuracy", "starts", "samples", "replicas", "seed")
    return Origin.of(output.model, **{name: getattr(args, name) for name in names})


def _prior(args: argparse.Namespace) -> "Prior":
    from ..free_energy import Binary, GaussBernoulli, Gaussian

    if args.prior == "sparse":
        return GaussBernoulli(args.density)
    return Binary() if args.prior == "binary" else Gaussian()


def _points(free: "FreeEntropy", args: argparse.Namespace) -> tuple[tuple["StationaryPoint", ...], str, bool]:
    """Stationary points, a sentence, and whether the maximum of Phi is among them."""
    from ..free_energy.rest import Rest
    from ..free_energy.stationary import stationary_points

    rest = Rest(free.output, free.prior)
    points = stationary_points(free, starts=args.starts, rng=args.seed, rest=rest)
    largest = max(p.residual for p in points)
    number = f"{len(points)} stationary point{'s' if len(points) > 1 else ''}"
    converged = any(p.stable for p in points)
    status = f"{'' if converged else 'not '}converged: {number}, max |F(q) - q| = {largest:.1e}"
    if not converged:
        # Phi has a maximum, if only towards recovery.
        status += "; none of them is stable, so that one was missed: raise --starts or --accuracy"
    if rest.unresolved:
        where = ", ".join(f"{x:.4g}" for x in rest.unresolved[0])
        status += f"; the averages are not resolved at overlaps ({where}): points near there would be missed"
    if len(free.output.groups) > 1:
        status += "; with both overlaps free, those that the starts lead to"
    return points, status, converged


def _transitions(output: "OutputEntropy", prior: "Prior", about: dict[str, Any]) -> Outcome:
    from ..free_energy.thresholds import transitions

    found = transitions(output, prior)
    lines = [f"{about['model']}; {prior.describe()}"]
    if found.weak is not None:
        lines.append(f"weak recovery: alpha = {pm(found.weak.value, found.weak.error)}")
    else:
        lines.append("weak recovery: at any alpha")
    for one in found.first_order:
        lines.append(f"information-theoretic: alpha = {pm(one.information.value, one.information.error)}")
        lines.append(f"algorithmic: alpha = {pm(one.algorithmic.value, one.algorithmic.error)}")
        lines.append(f"hard in between: q = {one.overlaps[0]:.4f} is found where q = {one.overlaps[1]:.4f} is best")
    if not found.first_order:
        lines.append("no first-order transition: no hard phase")
    if math.isfinite(found.recovery):
        lines.append(f"recovery is best from alpha = {found.recovery:.6g} on")
    key = found.first_order[-1].information if found.first_order else found.weak or found.perfect
    record = as_dict(found) | about
    record |= {
        "value": None if key is None else recorded(key.value, key.error),
        "error": 0.0 if key is None else key.error,
    }
    record |= {"how": output.how, "converged": True, "status": "converged: every fold of alpha(q) was located"}
    return record, "\n".join([*lines, record["status"]]), True


def _line(point: "StationaryPoint") -> str:
    overlaps = ", ".join(
        pm(q, e) for q, e in zip(point.overlap.diagonal(), point.overlap_error.diagonal(), strict=True)
    )
    value = point.free_entropy
    phi = pm(value.value, value.error) if math.isfinite(value.value) else str(value.value)
    return f"q = {overlaps}; {point.kind}, {'stable' if point.stable else 'unstable'}, Phi = {phi}"
