"""The verb `make-data`: samples of a teacher at random, written in blocks of rows."""

import argparse
import math
from pathlib import Path

import numpy as np

import attnlimits as al

from ..core.destinations import output_folder
from ..core.progress import Bar
from ..model.described import of_data
from .asked import asked_sizes, run_at
from .flags import check_model, link_flags, model_flags, model_of
from .prior_flags import check_prior, prior_flags, prior_of
from .spectrum_flags import spectrum_given
from .verbs import Outcome, Record, Verbs, add_verb, shown

__all__ = ["add", "run"]

_TYPES = {"float32": np.float32, "float64": np.float64}


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "make-data",
        run,
        "samples of a teacher at random, written in blocks of rows for gamp, of any size that the disk has room for",
        "attnlimits make-data --layers 1 --tokens 2 --alpha 1.2 --dimension 20000 --out data",
    )
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("data")
    alpha = group.add_argument("--alpha", "-a", type=float, help="samples per dimension N/D")
    dimension = group.add_argument("--dimension", type=int, metavar="D", help="dimension of the tokens")
    out = group.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="it gets folders X and Y of .npy blocks with the same names, and teacher.npy",
    )
    group.add_argument("--rows", type=int, metavar="N", help="samples of a block (default: as many as take 256 MiB)")
    group.add_argument("--dtype", choices=_TYPES, default="float32", help="type of X (default: %(default)s)")
    prior_flags(group)
    group.add_argument("--seed", type=int, default=0, help="seed (default: %(default)s)")
    parser.needs(alpha, dimension, out)
    parser.check = _check


def run(args: argparse.Namespace) -> Outcome:
    """Write the blocks."""
    from ..priors import is_standard  # NumPy, as in `prior_of`

    _check(args)
    asked = model_of(args, "make-data")
    output_folder(args.out)
    model = of_data(asked)
    name = f"--dimension {args.dimension} at --alpha {args.alpha:g}"
    al.learning.refuse_size(model, args.alpha, args.dimension, name, itemsize=0)
    bar, prior = Bar("make-data", show=shown(args)), prior_of(args)
    blocks = al.learning.write_data(
        asked,
        al.teacher(asked, args.dimension, rng=args.seed, prior=prior),
        args.alpha,
        args.out,
        rng=args.seed,
        rows=args.rows,
        dtype=_TYPES[args.dtype],
        spectrum=spectrum_given(args),
        progress=bar.to,
    )
    bar.close()
    run_at(args, "alpha", al.learning.alpha_of(args.alpha, args.dimension))
    shape = [round(args.alpha * args.dimension), model.tokens, args.dimension]
    record: Record = {
        "model": model.describe(),
        "x": str(args.out / "X"),
        "y": str(args.out / "Y"),
        "teacher": str(args.out / "teacher.npy"),
        "shape": shape,
        "dtype": args.dtype,
        "blocks": len(blocks.blocks),
        "alpha": args.alpha,
        **asked_sizes(args),
        "seed": args.seed,
        "prior": prior.describe(),
        "status": f"wrote {len(blocks.blocks)} blocks",
    }
    size = math.prod(shape) * np.dtype(_TYPES[args.dtype]).itemsize
    text = f"X of shape {tuple(shape)}, {args.dtype}, {size / 2**30:.3g} GiB in {len(blocks.blocks)} blocks"
    where = f"wrote {args.out / 'X'}, {args.out / 'Y'} and {args.out / 'teacher.npy'}"
    name = model.describe() if is_standard(prior) else f"{model.describe()}; {prior.describe()}"
    return record, "\n".join([name, text, where]), True


def _check(args: argparse.Namespace) -> None:
    """Refuse flags out of range."""
    check_model("make-data")(args)
    check_prior(args)
    if args.alpha is not None and not (math.isfinite(args.alpha) and args.alpha > 0):
        raise ValueError(f"--alpha must be finite and > 0, got {args.alpha:g}")
    for flag, least in (("dimension", 1), ("rows", 1), ("seed", 0)):
        value = getattr(args, flag)
        if value is not None and value < least:
            raise ValueError(f"--{flag} must be >= {least}, got {value}")
