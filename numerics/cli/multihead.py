"""What `attnlimits multihead` does: learn a multi-head layer from examples, and show how it can fail."""

import argparse
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.array_files import read_named, write_arrays
from ..core.decimals import pm
from ..core.destinations import output_file, output_folder
from ..core.plots import save_figure
from ..core.progress import Bar
from ..core.results import as_dict, load, save, versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..multihead.learn import MultiheadFit
    from ..multihead.sculpt.results import SculptResult
    from ..multihead.teachers import TeacherData

__all__ = ["multihead_flags", "run"]

Outcome = tuple[dict[str, Any], str, bool]

_METHODS = ("auto", "sculpt", "restarts")
_FAMILIES = ("gauss", "corr", "sameW", "saturated", "lowrank", "parity")
# Inputs of a test sample, where there are too many to take all; k d up to which all are taken.
_TEST, _ALL = 5000, 20


def multihead_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `multihead`, each with its flags."""
    verbs = parser.add_subparsers(dest="multihead_verb", required=True, metavar="VERB", parser_class=type(parser))

    def verb(name: str, run: Callable[[argparse.Namespace], Outcome], help_: str, example: str) -> Any:
        sub = verbs.add_parser(
            name, help=help_, description=help_[0].upper() + help_[1:] + ".", epilog=f"example: {example}"
        )
        # Without a default of its own it leaves alone what was said before the verb.
        sub.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")
        sub.set_defaults(run=run)
        return sub

    demo = verb(
        "demo",
        _demo,
        "learn a random layer from its examples",
        "attnlimits multihead demo --heads 2 --seq 2 --dim 8 --samples 1000",
    )
    _teacher_flags(demo)
    _method_flags(demo)
    demo.add_argument("--blind", action="store_true", help="tell neither the number of heads nor the noise")

    fit = verb(
        "fit",
        _fit,
        "learn a layer from examples of your own",
        "attnlimits multihead fit --x x.npy --y y.npy --heads 2 --out layer.npz",
    )
    fit.add_argument("--x", type=Path, metavar="FILE", required=True, help="inputs (n, k, d), .npy, or X in a .npz")
    fit.add_argument("--y", type=Path, metavar="FILE", help="outputs, likewise; by default Y in the file of --x")
    fit.add_argument("--heads", type=_heads, default="auto", help="m, or auto (default)")
    fit.add_argument("--noise-std", type=float, help="of every entry of Y (default: estimated)")
    fit.add_argument("--out", type=Path, metavar="FILE", help="write theta and w there, as .npz")
    _method_flags(fit)

    hard = verb(
        "hardness",
        _hardness,
        "how well methods learn layers that carry a hidden parity",
        "attnlimits multihead hardness --bits 1 3 --methods lm --dim 8",
    )
    hard.add_argument(
        "--bits", type=int, nargs="+", default=[1, 2, 3], metavar="n", help="of the parity (default: 1 2 3)"
    )
    hard.add_argument("--dim", type=int, default=10, metavar="d", help="dimension (default: %(default)s)")
    hard.add_argument("--samples", type=int, default=20000, help="examples (default: %(default)s)")
    hard.add_argument("--methods", nargs="+", metavar="METHOD", help="adam, lbfgs, lm, sculpt (default: all)")
    hard.add_argument("--starts", type=int, default=3, help="of each method at most (default: %(default)s)")
    hard.add_argument("--seed", type=int, default=0, help="default: %(default)s")

    figure = verb(
        "figure",
        _figure,
        "draw the steps of sculpting on one instance, or a stored study",
        "attnlimits multihead figure steps --heads 2 --dim 8 --samples 3000 --out results",
    )
    figure.add_argument("name", choices=("steps", "hardness", "scaling"))
    figure.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    _teacher_flags(figure)


def run(args: argparse.Namespace) -> Outcome:
    """Say which verbs there are: the parser asks for one, and each has its own function."""
    raise ValueError("multihead needs a verb: demo, fit, hardness or figure")


def _heads(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected an integer or "auto", got {text!r}') from None


def _teacher_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("teacher and examples")
    group.add_argument("--heads", type=int, default=2, metavar="m", help="heads (default: %(default)s)")
    group.add_argument("--seq", type=int, default=2, metavar="k", help="tokens (default: %(default)s)")
    group.add_argument("--dim", type=int, default=8, metavar="d", help="dimension (default: %(default)s)")
    group.add_argument("--samples", type=int, default=3000, metavar="N", help="examples (default: %(default)s)")
    group.add_argument("--noise", type=float, default=0.0, help="over the size of the outputs (default: %(default)s)")
    group.add_argument("--family", choices=_FAMILIES, default="gauss", help="default: %(default)s")
    group.add_argument("--scale", type=float, help="standard deviation of logit differences (default: of the family)")
    group.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def _method_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", choices=_METHODS, default="auto", help="default: %(default)s")
    parser.add_argument("--starts", type=int, default=8, help="random starts at most (default: %(default)s)")


def _instance(args: argparse.Namespace) -> "tuple[NDArray[Any], NDArray[Any], TeacherData]":
    """Teacher and examples that the flags describe, from one generator per use of the seed."""
    import numpy as np

    from ..multihead.checks import count
    from ..multihead.size import refuse_size
    from ..multihead.teachers import make_examples, make_teacher

    for flag in ("heads", "seq", "dim", "samples"):
        count(f"--{flag}", getattr(args, flag))
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    if not (math.isfinite(args.noise) and args.noise >= 0):
        raise ValueError(f"--noise must be finite and >= 0, got {args.noise:g}")
    asked = f"--samples {args.samples} --seq {args.seq} --dim {args.dim} --heads {args.heads}"
    refuse_size(asked, args.samples, args.seq, args.dim, args.heads)
    theta, w = make_teacher(
        args.family, args.heads, args.dim, scale=args.scale, rng=np.random.default_rng([args.seed, 0])
    )
    generator = np.random.default_rng([args.seed, 1])
    made = make_examples(theta, w, samples=args.samples, tokens=args.seq, noise=args.noise, rng=generator)
    return theta, w, made


def _demo(args: argparse.Namespace) -> Outcome:
    theta, w, made = _instance(args)
    if args.blind and args.method == "sculpt":
        raise ValueError("--blind selects the number of heads, which --method sculpt must be told; take auto")
    found = _learn(args, made.X, made.Y, "auto" if args.blind else args.heads, None if args.blind else made.noise_std)
    judged = _judged(args, found, theta, w)
    value, error, how, on = (judged[name] for name in ("test_error", "error", "how", "test_inputs"))
    distance = judged["parameter_error"]
    record = _record("demo", found) | judged
    scatter = "" if how == "estimated" else f" +- {error:.1g}"
    lines = [
        f"{args.family} layer, m={args.heads}, k={args.seq}, d={args.dim}",
        f"{args.samples} samples, noise {args.noise:g}",
        f"{found.method}, {_count(found.heads, 'head')}: test error {value:.1e}{scatter} on {on} inputs",
        f"parameter error: {'none, for the numbers of heads differ' if distance is None else f'{distance:.1e}'}",
    ]
    return record, "\n".join([*lines, *_told(found)]), found.converged


def _learn(
    args: argparse.Namespace, X: "NDArray[Any]", Y: "NDArray[Any]", heads: Any, noise_std: float | None, **held: Any
) -> "MultiheadFit":
    from ..multihead.errors import LearnWarning
    from ..multihead.learn import learn_multihead

    with warnings.catch_warnings():
        # The status says the same.
        warnings.simplefilter("ignore", LearnWarning)
        return learn_multihead(
            X,
            Y,
            heads,
            args.method,
            noise_std=noise_std,
            starts=args.starts,
            strict=False,
            rng=getattr(args, "seed", 0),
            **held,
        )


def _judged(
    args: argparse.Namespace, found: "MultiheadFit | SculptResult", theta: "NDArray[Any]", w: "NDArray[Any]"
) -> dict[str, Any]:
    """The learned layer beside the true one: error over all inputs, or over a sample with its standard error."""
    import numpy as np

    from ..multihead.certificates import exact_risk
    from ..multihead.holdout import sampled_error
    from ..multihead.layer import multihead
    from ..multihead.matching import parameter_error

    if args.seq * args.dim <= _ALL:
        risk = exact_risk(found.theta, found.w, theta, w, args.seq)
        # Rounding of the outputs of both layers.
        eps = float(np.finfo(float).eps)
        value, error, how, on = risk.nmse, 2 * eps * math.sqrt(risk.nmse) + eps**2, "estimated", risk.inputs
    else:
        generator = np.random.default_rng([args.seed, 2])
        X = np.asarray(2.0 * generator.integers(0, 2, (_TEST, args.seq, args.dim)) - 1.0, dtype=np.float64)
        value, error = sampled_error(X, multihead(X, theta, w), found.theta, found.w)
        how, on = "monte-carlo", _TEST
    same = found.theta.shape == theta.shape
    return {
        "value": f"{value:.6g}",
        "quantity": "E |F' - F|^2 / E |F|^2 of the learned layer F'",
        "error": error,
        "how": how,
        "test_error": value,
        "test_inputs": on,
        "parameter_error": parameter_error(found.theta, found.w, theta, w) if same else None,
        **{name: getattr(args, name) for name in ("family", "seq", "dim", "samples", "noise", "scale", "seed")},
        "teacher_heads": args.heads,
    }


def _record(verb: str, found: "MultiheadFit") -> dict[str, Any]:
    told = as_dict(found)
    kept = {name: told[name] for name in told if name not in ("theta", "w")}
    return {"verb": f"multihead {verb}", **kept, "status": _status(found)}


def _told(found: "MultiheadFit") -> list[str]:
    certificates = found.certificates
    sensitive = "unknown" if certificates.sensitivity is None else f"{certificates.sensitivity:.2g}"
    lines = [f"sensitivity (sigma_min/sigma_max): {sensitive}"]
    if found.noise_std > 0:
        error = certificates.expected_error
        own = certificates.error_status if error is None else "not bounded" if math.isinf(error) else f"{error:.1e}"
        lines.append(f"noise {found.noise_std:.3g}; expected parameter error {own}")
    for number, head in enumerate(certificates.heads or ()):
        zero = "; it may be zero" if head.maybe_zero else ""
        theta, w = pm(head.theta_norm, head.theta_error), pm(head.w_norm, head.w_error)
        lines.append(f"head {number}: |Theta| = {theta}, |W| = {w}{zero}")
    return [*lines, ("converged: " if found.converged else "not converged: ") + _status(found)]


def _status(found: "MultiheadFit") -> str:
    """The status with what to try, as the errors of Python have it."""
    return f"{found.status}; {found.remedy}" if found.remedy else found.status


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _fit(args: argparse.Namespace) -> Outcome:
    args.out = output_file(args.out, ".npz")
    X, Y = _arrays(args.x, args.y)
    if args.noise_std is not None and not (math.isfinite(args.noise_std) and args.noise_std >= 0):
        raise ValueError(f"--noise-std must be finite and >= 0, got {args.noise_std:g}")
    found = _learn(args, X, Y, args.heads, args.noise_std)
    record = _record("fit", found) | {
        "value": f"{found.validation_error:.6g}",
        "quantity": "|F(X) - Y|^2 / |Y|^2 on held-out examples",
        "error": as_dict(found.validation_deviation),
        "how": "monte-carlo",
    }
    scatter = f" +- {found.validation_deviation:.1g}" if math.isfinite(found.validation_deviation) else ""
    lines = [
        f"{found.method}, {_count(found.heads, 'head')}: validation error {found.validation_error:.2e}{scatter}",
        *_told(found),
    ]
    if args.out is not None:
        write_arrays(args.out, theta=found.theta, w=found.w)
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    else:
        record |= {"theta": as_dict(found.theta), "w": as_dict(found.w)}
    return record, "\n".join(lines), found.converged


def _arrays(x: Path, y: Path | None) -> "tuple[NDArray[Any], NDArray[Any]]":
    """X and Y from one file or two."""
    if y is None:
        if x.suffix != ".npz":
            raise ValueError(f"--y is missing: {x} holds one array; give --y, or a .npz file with X and Y")
        return read_named("--x", x, "X"), read_named("--x", x, "Y")
    return read_named("--x", x, "X"), read_named("--y", y, "Y")


def _hardness(args: argparse.Namespace) -> Outcome:
    from ..multihead.hardness import METHODS, hardness

    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    bar = Bar("hardness", show=True)
    found = hardness(
        args.bits,
        dim=args.dim,
        samples=args.samples,
        methods=args.methods or METHODS,
        starts=args.starts,
        rng=args.seed,
        progress=bar.to,
    )
    bar.close()
    last = found.points[-1]
    record = as_dict(found) | {
        "verb": "multihead hardness",
        "value": f"{last.error:.6g}",
        "quantity": f"mean squared error of {last.method} on the parity of {last.n} bits; 1 of the trivial predictor",
        "error": as_dict(last.deviation),
        "how": "monte-carlo",
        "test_error": last.error,
        "method": last.method,
        # Every run is made; what it has learned is the answer.
        "converged": True,
    }
    lines = [f"hidden parity of n of {args.dim - 1} bits; mean squared error on it, 1 of the trivial predictor"]
    for p in found.points:
        refused = p.status.startswith("DegenerateSum")
        told = "refuses, DegenerateSum" if refused else f"{p.error:.3f} +- {p.deviation:.1g}"
        lines.append(f"n = {p.n}, {_count(p.heads, 'head')}, {p.method}: {told}")
    lines.append(
        "exact: the concepts have correlations 0"
        if all(c.pairwise == 0 and c.low_degree == 0 for c in found.correlations)
        else "exact: some concepts are correlated"
    )
    return record, "\n".join([*lines, found.status]), True


def _figure(args: argparse.Namespace) -> Outcome:
    output_folder(args.out).mkdir(parents=True, exist_ok=True)
    stem = f"multihead-{args.name}"
    picture, data = args.out / f"{stem}.png", args.out / f"{stem}.json"
    if args.name == "steps":
        record, line, fine = _steps(args, picture)
    else:
        record, line, fine = _stored(args.name, picture)
    save(data, record)
    record |= {"verb": f"multihead figure {args.name}", "files": [str(picture), str(data)], "versions": versions()}
    return record, f"{line}\nwrote {picture}\nwrote {data}", fine


def _stored(name: str, picture: Path) -> Outcome:
    from importlib import import_module

    module = import_module(f"attnlimits.papers.chen2024.figures.{name}")
    record = load(module.DATA)
    module.draw(record, picture)
    return record | module.headline(record) | {"converged": True}, f"drawn from {module.DATA.name}", True


def _steps(args: argparse.Namespace, picture: Path) -> Outcome:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ..multihead.sculpt.plots import hull_net, hull_singular_values, residual_histogram
    from ..multihead.sculpt.sculpt import sculpt

    if args.heads < 2:
        raise ValueError(f"--heads must be >= 2, for one head has no hull to draw, got {args.heads}")
    theta, w, made = _instance(args)
    found = sculpt(made.X, made.Y, args.heads, noise_std=made.noise_std, strict=False, rng=args.seed)
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.4), layout="constrained")
    residual_histogram(axes[0], found)
    hull_singular_values(axes[1], found)
    hull_net(axes[2], found, theta)
    save_figure(figure, picture, dpi=110)
    plt.close(figure)
    record = _judged(args, found, theta, w) | {
        "method": "sculpt",
        "validation_error": found.validation_error,
        "converged": found.converged,
        "status": found.status,
        "certified_rows": found.certified,
        "spectral_gap": as_dict(found.hull.gap),
        "least_level": as_dict(found.least_level),
        "singular_values": as_dict(found.hull.singular_values),
        "attempts": as_dict(found.attempts),
    }
    return record, found.status, found.converged
