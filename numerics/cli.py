"""The command `attnlimits`.

Every verb takes `--json` and then prints one JSON object. Exit status: 0 on success, 1 if a computation failed or did
not converge, 2 on bad arguments; a failure prints one line on stderr that says what to do.
"""

import argparse
import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from .errors import ConvergenceError
from .models import ACTIVATIONS, Attention, available_kernels
from .results import as_dict

__all__ = ["main"]

# Figure name -> module with `make(out, alphas, progress) -> dict`.
FIGURES = {"troiani2025-1": "attnlimits.papers.troiani2025.figures.figure_1"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, exit status 2."""
        print(f"{self.prog}: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    args = _parser().parse_args(argv)
    begin = time.perf_counter()
    try:
        record, text, ok = args.run(args)
    except (ConvergenceError, ArithmeticError) as error:
        return _fail(str(error), 1)
    except ValueError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(f"{error.strerror}: {error.filename}", 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    record["seconds"] = round(time.perf_counter() - begin, 3)
    print(json.dumps(as_dict(record)) if args.json else text)
    if not ok:
        return _fail(str(record.get("status", "failed")), 1)
    return 0


def _fail(message: str, status: int) -> int:
    print("attnlimits: " + " ".join(message.split()), file=sys.stderr)
    return status


Outcome = tuple[dict[str, Any], str, bool]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="attnlimits",
        description="What attention networks can learn, to high precision: thresholds, state evolution, kernels.",
        epilog="example: attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)

    def verb(name: str, run: Callable[[argparse.Namespace], Outcome], help_: str, example: str) -> Any:
        sub = verbs.add_parser(
            name, help=help_, description=help_[0].upper() + help_[1:] + ".", epilog=f"example: {example}"
        )
        sub.add_argument("--json", action="store_true", help="print one JSON object")
        sub.set_defaults(run=run)
        return sub

    verb("models", _models, "list the generated kernels", "attnlimits models --json")

    derive = verb("derive", _derive, "derive the expressions and write the kernels", "attnlimits derive --check")
    derive.add_argument("--check", action="store_true", help="compare with the kernels in place, write nothing")
    derive.add_argument("--out", type=Path, help="write to this folder instead of the installed kernels")

    verify = verb(
        "verify",
        _verify,
        "run the check of every equation of a paper",
        "attnlimits verify --paper troiani2025",
    )
    verify.add_argument("--paper", default="troiani2025", help="citekey (default: %(default)s)")
    verify.add_argument("--id", type=int, nargs="+", dest="ids", metavar="N", help="only these equations")

    threshold = verb(
        "threshold",
        _threshold,
        "weak-recovery threshold of a layer",
        "attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    _model_flags(threshold)
    threshold.add_argument(
        "--digits", type=int, default=12, help="significant digits of the last layer (default: %(default)s)"
    )
    threshold.add_argument("--layer", type=int, help="which layer (default: the last one)")
    threshold.add_argument(
        "--given",
        choices=["self-consistent"],
        help="for a layer before the last: given the fixed point of the last layer at the same alpha",
    )
    _sampling_flags(threshold)

    evolve = verb(
        "evolve",
        _evolve,
        "fixed point of the state evolution",
        "attnlimits evolve --layers 2 --tokens 2 --skip 1 --alpha 0.5 --json",
    )
    _model_flags(evolve)
    evolve.add_argument("--alpha", type=float, required=True, help="samples per dimension, N/D")
    evolve.add_argument("--start", choices=["uninformed", "informed"], default="uninformed")
    evolve.add_argument("--tol", type=float, default=1e-5, help="on max |F(q) - q| (default: %(default)s)")
    evolve.add_argument("--max-iter", type=int, default=200, help="evaluations (default: %(default)s)")
    _sampling_flags(evolve)

    figure = verb("figure", _figure, "make a figure and its data", "attnlimits figure troiani2025-1 --out results")
    figure.add_argument("name", choices=sorted(FIGURES))
    figure.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    figure.add_argument("--points", type=int, default=48, help="number of alphas (default: %(default)s)")
    return parser


def _ranks(text: str) -> int | tuple[int, ...]:
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected one integer, or one per layer as in 1,2; got {text!r}") from None
    return values[0] if len(values) == 1 else values


def _model_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--layers", type=int, default=2, metavar="L", help="depth (default: %(default)s)")
    group.add_argument("--tokens", type=int, default=2, metavar="M", help="tokens (default: %(default)s)")
    group.add_argument("--rank", type=_ranks, default=1, metavar="r", help="rank, or one per layer: 1,2")
    group.add_argument("--heads", type=int, default=1, metavar="H", help="heads (only 1 so far)")
    group.add_argument("--skip", type=float, default=1.0, metavar="c", help="skip strength (default: %(default)s)")
    group.add_argument("--beta", type=float, default=1.0, metavar="b", help="inverse temperature (default: 1)")
    group.add_argument("--activation", default="softmax", help=f"{' or '.join(ACTIVATIONS)} (default: softmax)")
    group.add_argument("--untied", action="store_true", help="own key and query weights (not yet)")
    group.add_argument("--output", choices=["last", "sequence"], default="last", help="only last so far")
    group.add_argument("--link", metavar="EXPR", help="a link of your own (not yet)")


def _sampling_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("sampling")
    group.add_argument("--samples", type=int, default=4096, help="points per randomisation (default: %(default)s)")
    group.add_argument("--replicas", type=int, default=8, help="independent randomisations (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="seed (default: %(default)s)")
    group.add_argument("--workers", type=int, help="threads (default: all cores)")


def _model(args: argparse.Namespace) -> Attention:
    if args.heads < 1:
        raise ValueError(f"--heads must be >= 1, got {args.heads}")
    for flag, used in (
        ("--heads", args.heads != 1),
        ("--untied", args.untied),
        ("--output sequence", args.output != "last"),
        ("--link", args.link is not None),
    ):
        if used:
            raise ValueError(
                f"{flag} has no kernel in this version: tied, single-head models with the last layer's attention as "
                "output are served; `attnlimits models` lists them"
            )
    return Attention(args.layers, args.tokens, args.rank, args.skip, args.beta, args.activation)


def _check_sampling(args: argparse.Namespace) -> None:
    """Refuse sampling flags out of range, also where this model would not use them."""
    for flag, least in (("samples", 1), ("replicas", 2), ("seed", 0), ("workers", 1)):
        value = getattr(args, flag)
        if value is not None and value < least:
            raise ValueError(f"--{flag} must be >= {least}, got {value}")


def _models(args: argparse.Namespace) -> Outcome:
    del args
    kernels = available_kernels()
    text = "\n".join(
        f"{k['name']}: {k['activation']}, M = {k['tokens']}, rank {k['rank']}, {str(k['hash'])[:12]}" for k in kernels
    )
    return {"models": kernels, "activations": list(ACTIVATIONS)}, text, True


def _derive(args: argparse.Namespace) -> Outcome:
    from attnlimits.derive.__main__ import main as derive
    from attnlimits.derive.proof import ProofError

    options = (["--check"] if args.check else []) + (["--out", str(args.out)] if args.out else [])
    try:
        # The generator reports on stdout; with --json only the object may stand there.
        with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
            status = derive(options)
    except ProofError as error:
        message = f"a derivation is not proved, nothing was written: {error}"
        return {"check": args.check, "ok": False, "status": message}, message, False
    word = "fresh" if args.check else "written"
    message = f"kernels {word}" if status == 0 else "kernels are stale: run `make derive` and commit the result"
    return {"check": args.check, "ok": status == 0, "status": message}, message, status == 0


def _verify(args: argparse.Namespace) -> Outcome:
    from attnlimits.derive import registry

    bar = _Bar("equations", show=sys.stderr.isatty())
    results = registry.run(args.paper, args.ids, progress=lambda done, total, _: bar.to(done, total))
    bar.close()
    summary = registry.summary(results)
    record = {"paper": args.paper, **summary}
    failed = ", ".join(f"({number})" for number in summary["failed"])
    record["status"] = "all checks passed" if summary["ok"] else f"checks failed: {failed}; see the table"
    return record, registry.table(results), bool(summary["ok"])


def _threshold(args: argparse.Namespace) -> Outcome:
    from .thresholds import last_layer

    _check_sampling(args)
    model = _model(args)
    layer = model.layers if args.layer is None else args.layer
    if not 1 <= layer <= model.layers:
        raise ValueError(f"--layer must be from 1 to --layers {model.layers}, got {layer}")
    if layer == model.layers:
        if args.given is not None:
            raise ValueError("--given is for a layer before the last one; the last layer is learned from nothing")
        result = last_layer(model, digits=args.digits, rng=args.seed)
    else:
        from .staircase import first_layer

        result = first_layer(model, samples=args.samples, replicas=args.replicas, rng=args.seed, workers=args.workers)
    record = as_dict(result) | {"layer": layer, "model": model.describe()}
    exact = f" = {result.exact} exactly" if result.exact else ""
    text = (
        f"{model.describe()}\nalpha({result.subspace}) = {result.value}{exact}\n"
        f"error {result.error:.1e} ({result.how}); {result.status}"
    )
    return record, text, result.converged


def _evolve(args: argparse.Namespace) -> Outcome:
    _check_sampling(args)
    # Checked before the compiled kernels load, which takes a second.
    for flag, value, least in (("alpha", args.alpha, 0.0), ("tol", args.tol, 1e-12)):
        if not (math.isfinite(value) and value >= least):
            raise ValueError(f"--{flag} must be finite and >= {least:g}, got {value:g}")
    if args.max_iter < 1:
        raise ValueError(f"--max-iter must be >= 1, got {args.max_iter}")
    model = _model(args)
    from .state_evolution import evolve

    result = evolve(
        model,
        args.alpha,
        start=args.start,
        samples=args.samples,
        replicas=args.replicas,
        tol=args.tol,
        max_iter=args.max_iter,
        rng=args.seed,
        workers=args.workers,
    )
    record = as_dict(result) | {
        "value": f"{result.overlap[-1, -1]:.6f}",
        "error": float(result.overlap_error[-1, -1]),
        "how": result.estimation_error.how,
        "model": model.describe(),
    }
    lines = [model.describe(), f"alpha = {result.alpha:g}"]
    for k, (q, e) in enumerate(zip(result.overlap.diagonal(), result.overlap_error.diagonal(), strict=True)):
        lines.append(f"q_{k + 1}{k + 1} = {q:.5f} +- {e:.5f}")
    lines += [
        f"prediction error: {_pm(result.prediction_error)} (posterior mean), {_pm(result.plugin_error)} (plug-in)",
        result.status,
    ]
    return record, "\n".join(lines), result.converged


def _pm(estimate: Any) -> str:
    return f"{estimate.value:.5f} +- {estimate.error:.5f}"


def _figure(args: argparse.Namespace) -> Outcome:
    if args.points < 4:
        raise ValueError(f"--points must be >= 4 for a curve, got {args.points}")
    bar = _Bar(args.name, show=True)
    made = import_module(FIGURES[args.name]).make(args.out, args.points, bar.to)
    bar.close()
    return made, "\n".join(made["summary"]), bool(made["converged"])


class _Bar:
    """A progress bar on stderr that is told how far it is."""

    def __init__(self, title: str, *, show: bool) -> None:
        self._title, self._show = title, show
        self._bar: Any = None

    def to(self, done: int, total: int) -> None:
        """Move to `done` of `total`."""
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=self._title, disable=not self._show, file=sys.stderr)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()


if __name__ == "__main__":
    sys.exit(main())
