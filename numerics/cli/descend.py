"""The verb `descend`: gradient descent on the square loss, beside `gamp` and with its flags for data."""

import argparse
import math
from dataclasses import replace

import numpy as np

import attnlimits as al

from ..core.decimals import pm, recorded
from ..core.progress import Bar
from ..core.results import as_dict
from ..model.described import Model, of_data
from .asked import asked_sizes, said
from .data import (
    STARTS,
    Array,
    check_data,
    check_iteration,
    data_flags,
    instances_of,
    iteration_flags,
    keep,
    read_data,
    rounding_of,
    start_of,
    take_whole_samples,
)
from .flags import model_of
from .prior_flags import check_prior, law_of, prior_flags
from .spectrum_flags import spectrum_given
from .verbs import Outcome, Record, Verbs, add_verb, shown

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "descend",
        run,
        "weights estimated from data by gradient descent on the square loss: SGD with batch reuse, GD, Adam",
        "attnlimits descend --layers 1 --tokens 2 --alpha 2 --dimension 300 --seeds 4",
    )
    data_flags(parser)
    group = parser.add_argument_group("descent")
    group.add_argument(
        "--method",
        choices=("sgd", "gd", "adam"),
        default="sgd",
        help="stochastic, of all samples, or AdamW (default: %(default)s)",
    )
    group.add_argument("--rate", type=float, help="learning rate (default: 0.2 for sgd, 0.5 for gd, 0.03 for adam)")
    group.add_argument("--weight-decay", type=float, default=0.0, help="default: %(default)s")
    group.add_argument("--batch", type=int, metavar="B", help="samples per batch, for sgd and adam (default: D/5)")
    group.add_argument("--reuse", type=int, default=1, help="steps on each batch (default: %(default)s)")
    group.add_argument("--epochs", type=int, default=200, help="most passes over the data (default: %(default)s)")
    prior_flags(group)
    iteration_flags(group, (*STARTS, "teacher"), "the gradient over the weights")


def run(args: argparse.Namespace) -> Outcome:
    """Descend on instances, or on files."""
    own = check_data(args)
    _check(args, own)
    model = model_of(args, "descend")
    return _from_files(args, model) if own else _instances(args, model)


def _check(args: argparse.Namespace, own: bool) -> None:
    check_iteration(args, "epochs")
    check_prior(args)
    if own and (args.prior != "gaussian" or args.row_covariance is not None):
        raise ValueError("--prior is of the teachers of instances, and descent takes data of your own without one")
    if args.rate is not None and not (math.isfinite(args.rate) and args.rate > 0):
        raise ValueError(f"--rate must be finite and > 0, got {args.rate:g}")
    if not (math.isfinite(args.weight_decay) and args.weight_decay >= 0):
        raise ValueError(f"--weight-decay must be finite and >= 0, got {args.weight_decay:g}")
    for name in ("batch", "reuse"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be >= 1, got {value}")
    if args.method == "gd" and (args.batch is not None or args.reuse > 1):
        raise ValueError("--batch and --reuse belong to --method sgd and adam; gd takes all samples")
    if own and args.spectrum is not None:
        raise ValueError("--spectrum is of instances of a teacher at random; data of your own have theirs")
    if own and args.start == "teacher":
        raise ValueError("--start teacher is for instances of a teacher at random; data of your own have none")


def _settings(args: argparse.Namespace) -> Record:
    names = ("method", "rate", "weight_decay", "batch", "reuse", "epochs", "tol", "workers")
    return {name: getattr(args, name) for name in names}


def _instances(args: argparse.Namespace, asked: Model) -> Outcome:
    model = of_data(asked)
    take_whole_samples(args, model)
    prior = law_of(args)

    def one(seed: int, weights: Array, x: Array, y: Array) -> "al.learning.DescentResult":
        start = weights if args.start == "teacher" else start_of(args, x, y, model, seed)
        return al.descend(asked, x, y, start=start, teacher=weights, rng=seed, **_settings(args))

    inputs = spectrum_given(args)
    found = instances_of(args, model, one, prior=prior)
    average = al.learning.mean_of(found, [r.n_epochs for r in found])
    cosines = np.array([r.cosine for r in found])
    cosine, error = cosines.mean(axis=0), al.learning.standard_error(cosines)
    losses = np.array([[r.loss] for r in found])
    loss_error = float(al.learning.standard_error(losses)[0])
    first = found[0]
    record = as_dict(average) | {
        "value": recorded(cosine[-1], error[-1]),
        "quantity": f"cosine similarity of {first.layers[-1]} with the teacher",
        "error": as_dict(float(error[-1])),
        "how": "monte-carlo",
        "layers": list(first.layers),
        "cosine": as_dict(cosine),
        "cosine_error": as_dict(error),
        "loss": float(losses.mean()),
        "loss_error": as_dict(loss_error),
        "model": model.describe(),
        "alpha": args.alpha,
        **asked_sizes(args),
        "prior": prior.describe(),
        "dimension": args.dimension,
        "seeds": len(found),
        "seed": args.seed,
        **{name: getattr(first, name) for name in ("method", "rate", "weight_decay", "batch", "reuse")},
        "start": args.start,
        **({} if inputs is None else {"spectrum": inputs.describe()}),
        "kernel_hash": first.kernel_hash,
        "versions": first.versions,
        "origin": as_dict(first.origin.with_settings(start=args.start)),
    }
    lines = [model.describe(), f"alpha = {said(args)}, D = {args.dimension}, {len(found)} instances"]
    lines += [f"cosine similarity of {name}: {pm(cosine[k], error[k])}" for k, name in enumerate(first.layers)]
    best = float(np.mean([r.spread for r in found]))
    lines.append(
        f"loss: {pm(float(losses.mean()), float(al.learning.standard_error(losses)[0]))} (best constant: {best:.3g})"
    )
    return record, "\n".join([*lines, average.status]), average.converged


def _from_files(args: argparse.Namespace, asked: Model) -> Outcome:
    model = of_data(asked)
    x, y = read_data(args)
    start = start_of(args, x, y, model, args.seed)
    bar = Bar("descend", show=shown(args))

    def tick(step: "al.learning.DescentStep") -> None:
        bar.to(step.epoch, args.epochs)

    result = al.descend(asked, x, y, start=start, rng=args.seed, callback=tick, **_settings(args))
    bar.close()
    # Of the projections of X.
    rounding = 10 * rounding_of(x) * result.spread
    record = as_dict(replace(result, origin=result.origin.with_settings(start=args.start))) | {
        "value": recorded(result.loss, rounding),
        "quantity": "loss, the mean of ||y - g||^2 / 2 over the samples",
        "error": rounding,
        "how": "estimated",
        "n_iter": result.n_epochs,
    }
    text = [model.describe(), f"alpha = {result.alpha:g}, D = {result.weights.shape[1]}"]
    text += [f"Q_{i + 1}{i + 1} = {result.self_overlap[i, i]:.5g}" for i in range(model.indices)]
    text += [f"loss: {result.loss:.3g} (best constant: {result.spread:.3g})", result.status]
    record = keep(args, record, text, result.weights)
    return record, "\n".join(text), result.converged
