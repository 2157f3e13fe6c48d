"""The command `attnlimits`.

Every verb takes `--json` and then prints one JSON object. Exit status: 0 on success, 1 if a computation failed or did
not converge, 2 on bad arguments, 130 if it was interrupted; a failure prints one line on stderr that says what to do.
"""

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..core.decimals import pm, recorded
from ..core.interrupts import INTERRUPTED, leave_signals
from ..core.progress import Bar
from ..core.results import EvolutionResult, ThresholdResult, as_dict
from ..model.attention import Attention
from . import aim as cli_aim
from . import committee as cli_committee
from . import curve as cli_curve
from . import denoise as cli_denoise
from . import descend as cli_descend
from . import figure as cli_figure
from . import free_energy as cli_free_energy
from . import gamp as cli_gamp
from . import multihead
from . import sweep as sweeps
from . import symbolic as cli_symbolic
from . import trec as cli_trec
from .flags import (
    MODEL_DEFAULTS,
    NODES,
    attention,
    check_output,
    check_sampling,
    is_attention,
    link_flags,
    model_flags,
    refuse_model_flags,
    sampling_flags,
)
from .guard import STATUSES, Parser, fail, guarded, say

__all__ = ["main"]

# Evaluations that a threshold of an earlier layer takes, roughly: for the bar.
_TRIES = 40


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    status = guarded(lambda: _main(argv))
    if argv is None:  # the process ends with the command
        leave_signals(status)
    return status


def _main(argv: Sequence[str] | None) -> int:
    args = _parser().parse_args(argv)
    begin = time.perf_counter()
    record, text, ok = args.run(args)
    record["seconds"] = round(time.perf_counter() - begin, 3)
    say(json.dumps(as_dict(record), allow_nan=False) if args.json else text)
    return 0 if ok else fail(str(record.get("status", "failed")), INTERRUPTED if record.get("interrupted") else 1)


Outcome = tuple[dict[str, Any], str, bool]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="attnlimits",
        description="What attention networks can learn, to high precision: thresholds, state evolution, kernels. "
        f"{STATUSES}.",
        epilog="example: attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=Parser)

    def verb(name: str, run: Callable[[argparse.Namespace], Outcome], help_: str, example: str) -> Any:
        sub = verbs.add_parser(
            name, help=help_, description=help_[0].upper() + help_[1:] + ".", epilog=f"example: {example}"
        )
        sub.add_argument("--json", action="store_true", help="print one JSON object")
        sub.set_defaults(run=run)
        return sub

    verb("models", cli_symbolic.models, "list the generated kernels", "attnlimits models --json")

    derive = verb(
        "derive",
        cli_symbolic.derive,
        "derive the expressions and write the kernels: all of them, or those of one model or link to the cache folder",
        "attnlimits derive --layers 2 --tokens 3 --untied",
    )
    model_flags(derive, symbolic=True)
    link_flags(derive)
    cli_symbolic.derive_flags(derive)

    explain = verb(
        "explain",
        cli_symbolic.explain,
        "print the derived formulas of a model: indices, mixing, link, symmetries, channel, threshold",
        "attnlimits explain --layers 2 --tokens 2 --untied --latex",
    )
    model_flags(explain, symbolic=True)
    explain.add_argument("--latex", action="store_true", help="LaTeX instead of plain text")

    verify = verb(
        "verify",
        cli_symbolic.verify,
        "run the check of every equation of a paper",
        "attnlimits verify --paper troiani2025",
    )
    verify.add_argument("--paper", default="troiani2025", help="citekey, or all (default: %(default)s)")
    verify.add_argument("--id", type=int, nargs="+", dest="ids", metavar="N", help="only these equations")

    threshold = verb(
        "threshold",
        _threshold,
        "weak-recovery threshold of a layer, or of a link of your own",
        "attnlimits threshold --layers 2 --tokens 2 --skip 1 --digits 12 --json",
    )
    model_flags(threshold)
    link_flags(threshold)
    threshold.add_argument(
        "--digits",
        type=int,
        help="significant digits (default: 12 for the last layer, to 50 at depth 2; what is cheap for a link)",
    )
    threshold.add_argument(
        "--rigorous",
        action="store_true",
        help="prove the digits: two softmax layers, two tokens; a minute or more",
    )
    threshold.add_argument("--layer", type=int, help="which layer (default: the last one)")
    threshold.add_argument(
        "--given",
        choices=["self-consistent", "perfect"],
        help="for a layer before the last: the last one at its fixed point at the same alpha (default), or exact",
    )
    threshold.add_argument(
        "--staircase", action="store_true", help="with --link: what is learned after that, step by step"
    )
    sampling_flags(threshold)

    evolve = verb(
        "evolve",
        _evolve,
        "fixed point of the state evolution",
        "attnlimits evolve --layers 2 --tokens 2 --skip 1 --alpha 0.5 --json",
    )
    model_flags(evolve)
    link_flags(evolve)
    evolve.add_argument("--alpha", type=float, required=True, help="samples per dimension, N/D")
    evolve.add_argument("--start", choices=["uninformed", "informed"], default="uninformed")
    evolve.add_argument("--tol", type=float, default=1e-5, help="on max |F(q) - q| (default: %(default)s)")
    evolve.add_argument("--max-iter", type=int, default=200, help="evaluations (default: %(default)s)")
    evolve.add_argument(
        "--nodes",
        type=int,
        default=NODES,
        help="nodes of a sampled posterior, as of three layers or of three tokens in two (default: %(default)s)",
    )
    evolve.add_argument(
        "--accuracy",
        type=float,
        help="of the overlaps, two softmax layers or more with two tokens (default: 1e-3 relative; deeper: 1e-2)",
    )
    sampling_flags(evolve, samples=None)

    cli_curve.curve_flags(
        verb(
            "curve",
            cli_curve.run,
            "fixed points along alpha, skip strength or inverse temperature: thresholds, jumps, hysteresis",
            "attnlimits curve --layers 1 --tokens 3 --from 0 --to 0.4 --points 9 --start both",
        )
    )

    cli_free_energy.free_energy_flags(
        verb(
            "free-energy",
            cli_free_energy.free_energy,
            "stationary points of the free entropy: the Bayes-optimal overlap, and the transitions",
            'attnlimits free-energy --link "h[1]**2" --alpha 1.05 --json',
        )
    )

    cli_committee.committee_flags(
        verb(
            "committee",
            cli_committee.committee,
            "strong skips: thresholds of the hidden layers and the last one, at any depth",
            "attnlimits committee --layers 101 --skip 400 --alpha 40",
        )
    )

    cli_free_energy.landscape_flags(
        verb(
            "landscape",
            cli_free_energy.landscape,
            "the free entropy over the overlaps, as a picture and as values",
            "attnlimits landscape --alpha 0.9 --out results/landscape.png",
        )
    )

    cli_denoise.denoise_flags(
        verb(
            "denoise",
            cli_denoise.denoise,
            "log Z, g_out and its derivative for single outputs, to any number of digits",
            "attnlimits denoise --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2], [0, 0.3]]' "
            "--V '[[1, 0.1], [0.1, 0.5]]' --digits 50",
        )
    )

    cli_gamp.gamp_flags(
        verb(
            "gamp",
            cli_gamp.run,
            "weights estimated from data by approximate message passing (GAMP)",
            "attnlimits gamp --layers 1 --tokens 2 --alpha 0.8 --dimension 500 --seeds 4",
        )
    )

    cli_descend.descend_flags(
        verb(
            "descend",
            cli_descend.run,
            "weights estimated from data by gradient descent on the square loss: SGD with batch reuse, GD, Adam",
            "attnlimits descend --layers 1 --tokens 2 --alpha 2 --dimension 300 --seeds 4",
        )
    )

    cli_aim.aim_flags(
        verb(
            "aim",
            cli_aim.run,
            "attention of extensive width: estimation error, thresholds, matrix denoiser, message passing",
            "attnlimits aim evolve --activation softmax --rho 0.5 --alpha 0.1",
        )
    )

    multihead.multihead_flags(
        verb(
            "multihead",
            multihead.run,
            "a multi-head layer learned from examples: restarts, sculpting, certificates, hardness",
            "attnlimits multihead demo --heads 2 --seq 2 --dim 8 --samples 1000",
        )
    )

    sweeps.sweep_flags(
        verb(
            "sweep",
            sweeps.run,
            "one computation at every point of a grid, in parallel and resumable",
            "attnlimits sweep troiani2025-skip --out results/skip",
        )
    )

    cli_trec.trec_flags(
        verb(
            "trec",
            cli_trec.run,
            "train a small attention classifier of questions, and see when each layer is learned (needs PyTorch)",
            "attnlimits trec --train train.txt --test test.txt --embeddings bert --json",
        )
    )

    cli_figure.figure_flags(
        verb(
            "figure",
            cli_figure.figure,
            "make a figure and its data",
            "attnlimits figure troiani2025-1 --out results",
        )
    )
    return parser


def _threshold(args: argparse.Namespace) -> Outcome:
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS | {"layer": None, "given": None, "rigorous": False})
        from .link import threshold as link_threshold

        return link_threshold(args)
    from ..thresholds.last_layer import last_layer

    check_sampling(args)
    if args.staircase or args.noise != "0":
        flag = "--staircase" if args.staircase else "--noise"
        raise ValueError(f"{flag} belongs to --link EXPR; attention models have neither")
    digits = 12 if args.digits is None else args.digits
    if args.rigorous:
        return _proved_threshold(args, digits)
    if args.layers == 1 and not is_attention(args):
        return _one_layer_threshold(args, digits)
    model = attention(args, "threshold")
    layer = model.layers if args.layer is None else args.layer
    if not 1 <= layer <= model.layers:
        raise ValueError(f"--layer must be from 1 to --layers {model.layers}, got {layer}")
    if layer == model.layers:
        if args.given is not None:
            raise ValueError("--given is for a layer before the last one; the last layer is learned from nothing")
        bar = Bar("threshold", show=True)
        result = last_layer(model, digits=digits, rng=args.seed, progress=bar.to)
        bar.close()
    else:
        from ..thresholds.first_layer import first_layer

        bar = Bar("threshold", show=True)
        tried = itertools.count(1)
        result = first_layer(
            model,
            given=args.given or "self-consistent",
            digits=args.digits,
            samples=args.samples,
            replicas=args.replicas,
            rng=args.seed,
            workers=args.workers,
            progress=lambda _: bar.to(min(next(tried), _TRIES), _TRIES),
        )
        bar.close()
    return _threshold_outcome(result, layer, model.describe())


def _proved_threshold(args: argparse.Namespace, digits: int) -> Outcome:
    from ..thresholds.last_layer import proved_last_layer

    model = attention(args, "threshold")
    if args.layer not in (None, model.layers):
        raise ValueError(f"--rigorous is for the last layer, got --layer {args.layer} of {model.layers}")
    result, enclosure = proved_last_layer(model, digits=digits, progress=True)
    record, text, converged = _threshold_outcome(result, model.layers, model.describe())
    return record | {"enclosure": as_dict(enclosure)}, text, converged


def _one_layer_threshold(args: argparse.Namespace, digits: int) -> Outcome:
    """One layer, untied, of several heads, or with its tokens as output, which tell as much as its attention."""
    from ..thresholds.last_layer import one_layer

    if args.layer not in (None, 1):
        raise ValueError(f"--layer must be 1 for one layer, got {args.layer}")
    result = one_layer(args.tokens, args.rank, args.activation, tied=not args.untied, digits=digits)
    kind = "untied" if args.untied else "tied"
    output = ", output B_1" if args.output == "sequence" else ""
    heads = "" if args.heads == 1 else f", H={args.heads}"
    name = f"{kind} {args.activation} attention, L=1, M={args.tokens}{heads}, rank {args.rank}{output}"
    if args.heads > 1:
        result = _side_by_side(result, args, digits)
    result = replace(result, origin=result.origin.with_model(heads=args.heads, output=args.output))
    return _threshold_outcome(result, 1, name)


def _side_by_side(result: ThresholdResult, args: argparse.Namespace, digits: int) -> ThresholdResult:
    """Turn the threshold of one head into that of H heads, each on its own D/H coordinates."""
    import numpy as np

    from ..thresholds import exact

    found = exact.single_layer(
        args.tokens, args.rank, args.activation, not args.untied, heads=args.heads, digits=digits
    )
    assert found is not None and found.value is not None
    status = f"{result.status}; alpha = N/D, every head sees D/{args.heads} coordinates"
    if args.output == "sequence":
        status += " (heads with a readout weight that is not zero)"
    return replace(
        result,
        value=found.value,
        exact=found.exact,
        error=found.error,
        operator_norm=result.operator_norm * args.heads,
        eigenvector=np.asarray(np.kron(np.eye(args.heads), result.eigenvector) / math.sqrt(args.heads), np.float64),
        status=status,
    )


def _threshold_outcome(result: ThresholdResult, layer: int, name: str) -> Outcome:
    record = as_dict(result) | {"layer": layer, "model": name}
    exact = f" = {result.exact}{' exactly' if result.how == 'rigorous' else ''}" if result.exact else ""
    text = (
        f"{name}\nalpha({result.subspace}) = {result.value}{exact}\n"
        f"error {result.error:.1e} ({result.how}); {result.status}"
    )
    return record, text, result.converged


def _evolve(args: argparse.Namespace) -> Outcome:
    check_sampling(args)
    # Checked before the compiled kernels load, which takes a second.
    for flag, value, least in (("alpha", args.alpha, 0.0), ("tol", args.tol, 1e-12)):
        if not (math.isfinite(value) and value >= least):
            raise ValueError(f"--{flag} must be finite and >= {least:g}, got {value:g}")
    check_output(args)
    if args.max_iter < 1:
        raise ValueError(f"--max-iter must be >= 1, got {args.max_iter}")
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS)
        from .link import evolve as link_evolve

        args.samples = args.samples or 4096
        return _evolve_outcome(*link_evolve(args))
    if args.noise != "0":
        raise ValueError("--noise belongs to --link EXPR; attention models have no noise")
    one = args.layers == 1 and not is_attention(args)
    model = _one_layer(args) if one else attention(args, "evolve")
    from ..fixed_point.evolve import evolve

    result = evolve(
        model,
        args.alpha * args.heads,
        start=args.start,
        samples=args.samples,
        accuracy=args.accuracy,
        replicas=args.replicas,
        tol=args.tol,
        max_iter=args.max_iter,
        rng=args.seed,
        workers=args.workers,
        nodes=args.nodes,
    )
    name = model.describe()
    if args.heads > 1:
        name += f", H={args.heads}"
        status = f"{result.status}; of each head, which sees D/{args.heads} coordinates of N samples"
        result = replace(result, alpha=args.alpha, status=status)
    if args.output == "sequence":
        name += ", output B_1"
    result = replace(result, origin=result.origin.with_model(heads=args.heads, output=args.output))
    return _evolve_outcome(result, {"model": name})


def _one_layer(args: argparse.Namespace) -> Any:
    """One head of one layer; the tokens that leave it tell as much as its attention."""
    from ..posterior.fibres import LastLayer

    if args.untied:
        return LastLayer(args.tokens, args.rank, args.activation, False, args.beta)
    return Attention(1, args.tokens, args.rank, args.skip, args.beta, args.activation)


def _evolve_outcome(result: EvolutionResult, about: dict[str, Any]) -> Outcome:
    record = as_dict(result) | {
        "value": recorded(float(result.overlap[-1, -1]), float(result.overlap_error[-1, -1])),
        "error": float(result.overlap_error[-1, -1]),
        "how": result.estimation_error.how,
    }
    lines = [about["model"], f"alpha = {result.alpha:g}"]
    size = len(result.overlap)
    for i, j in [*((k, k) for k in range(size)), *itertools.combinations(range(size), 2)]:
        q, error = result.overlap[i, j], result.overlap_error[i, j]
        if i == j or q or error:
            lines.append(f"q_{i + 1}{j + 1} = {pm(q, error)}")
    lines += [
        f"prediction error: {_pm(result.prediction_error)} (posterior mean), {_pm(result.plugin_error)} (plug-in)",
        result.status,
    ]
    return record | about, "\n".join(lines), result.converged


def _pm(estimate: Any) -> str:
    return pm(estimate.value, estimate.error)


if __name__ == "__main__":
    sys.exit(main())
