"""The verb `denoise`: log Z, g_out and d g_out of single outputs, to any number of digits or sampled."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

import attnlimits as al

from ..core.array_files import read_arrays, regular
from ..core.decimals import pm, recorded
from ..core.destinations import output_file
from ..core.files import naming
from ..core.memory import refuse_memory
from ..core.progress import Bar
from ..core.results import as_dict
from ..core.typing import Numbers
from ..model.network import Network
from ..model.routes import require, serving
from ..posterior.entrywise import EntrywiseDenoiserResult
from .flags import attention, model_flags
from .verbs import Outcome, Record, Verbs, add_verb, shown

if TYPE_CHECKING:
    from ..posterior.precise.sum import Progress

__all__ = ["add", "run"]

Sample: TypeAlias = dict[str, ArrayLike]

_NAMES = ("y", "omega", "V")
# Digits where nobody gives them.
_DIGITS = 15
# Bytes in memory of a byte of JSON, at most: an empty list of two bytes is an object of 56, and 8 to point to it.
_JSON = 32


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "denoise",
        run,
        "log Z, g_out and its derivative for single outputs: tied and rank 1 to any number of digits, others sampled",
        "attnlimits denoise --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2], [0, 0.3]]' "
        "--V '[[1, 0.1], [0.1, 0.5]]' --digits 50",
    )
    model_flags(parser)
    group = parser.add_argument_group("sample")
    group.add_argument("--y", metavar="ROWS", help="output, M x M: '[[0.7, 0.3], [0.2, 0.8]]'; decimals are exact")
    group.add_argument("--omega", metavar="ROWS", help="prior means of the indices, P x M")
    group.add_argument("--V", metavar="ROWS", help="prior covariance of the indices, P x P")
    group.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="instead: .json with an object of y, omega and V or a list of such, or .npz with arrays of these names, "
        "samples along the first axis of y",
    )
    parser.add_argument("--digits", type=int, help=f"digits, 5 to 200, of tied weights of rank 1 (default: {_DIGITS})")
    group = parser.add_argument_group("sampling")
    group.add_argument(
        "--tol", type=float, default=0.01, help="largest relative error of a sampled entry (default: %(default)s)"
    )
    group.add_argument("--seed", type=int, default=0, help="seed (default: %(default)s)")
    parser.add_argument("--max-nodes", type=int, default=10_000_000, help="bound of the work (default: %(default)s)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="write each result as soon as it is known, one JSON object per line; to a file, a pipe or a device",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Print or write the result of each sample as it is finished."""
    if args.max_nodes < 1:
        raise ValueError(f"--max-nodes must be >= 1, got {args.max_nodes}")
    model = attention(args, "denoise")
    output_file(args.out, stream=True)
    sampled = not serving("denoise-mp", model)
    if sampled and (args.digits is not None or not serving("denoise-sampled", model)):
        require("denoise-mp", model)
    samples, single = _samples(args)
    made: list[Record] = []
    about: Record = {"model": model.describe()} | ({} if sampled else {"digits": _digits(args)})
    status, interrupted = "", False
    bar = Bar("denoise", show=shown(args))
    out: IO[str] | None = None
    try:
        for k, sample in enumerate(samples):
            progress = bar.to if single else None
            try:
                given = [sample[name] for name in _NAMES]
                record, text = _sampled(args, model, given) if sampled else _precise(args, model, given, progress)
            except (ValueError, ArithmeticError, RuntimeError) as error:
                # What is finished is kept; a first failure is an error like any other.
                if not made:
                    raise
                status = f"sample {k + 1} of {len(samples)}: {error}"
                break
            made.append(record)
            if args.out is not None:
                # What was there before stays until there is a result.
                with naming(args.out):
                    out = out or args.out.open("w", encoding="utf-8")
                    out.write(json.dumps(about | {"sample": k + 1} | made[-1]) + "\n")
                    out.flush()
            elif not (single or args.json):
                print(f"sample {k + 1}\n{text}", flush=True)
            if not single:
                bar.to(k + 1, len(samples))
    except KeyboardInterrupt:
        if not made:
            raise
        status, interrupted = f"interrupted after {len(made)} of {len(samples)} samples", True
    finally:
        bar.close()
        if out is not None:
            with naming(args.out):  # what could not be written is tried again
                out.close()
    status = status or ("converged" if single else f"all {len(samples)} samples converged")
    ok = len(made) == len(samples)
    if single:
        return about | made[0] | {"status": status}, f"{model.describe()}\n{text}", ok
    record = about | {"samples": made, "converged": ok, "status": status}
    return record | ({"interrupted": True} if interrupted else {}), status, ok


def _samples(args: argparse.Namespace) -> tuple[Sequence[Sample], bool]:
    """Return the samples, and whether there is only the one of the flags or of an object in a file."""
    given = {name: getattr(args, name) for name in _NAMES}
    if args.input is None:
        rows = {name: _rows(f"--{name}", text) for name, text in given.items() if text is not None}
        missing = [f"--{name}" for name in given if name not in rows]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing: give --y, --omega and --V, or --input FILE")
        return [rows], True
    if any(text is not None for text in given.values()):
        raise ValueError("--input holds y, omega and V; leave --y, --omega and --V out")
    if args.input.suffix == ".npz":
        return _arrays(args.input), False
    # Lists of lists of text take many times the bytes of the file.
    refuse_memory(f"--input {args.input}", _JSON * regular(f"--input {args.input}", args.input), "give fewer samples")
    held = _decimals(str(args.input), args.input.read_text(encoding="utf-8", errors="replace"))
    samples = held if isinstance(held, list) else [held]
    for sample in samples:
        if not isinstance(sample, dict) or not set(_NAMES) <= set(sample):
            raise ValueError(f"{args.input} must hold an object with y, omega and V, or a list of such objects")
    if not samples:
        raise ValueError(f"{args.input} holds no sample")
    return samples, not isinstance(held, list)


def _decimals(name: str, text: str) -> Any:
    """Parse JSON with every number kept as it is spelled."""
    try:
        return json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        raise ValueError(f"{name} is no JSON, such as [[0.7, 0.3], [0.2, 0.8]]: {text[:60]!r}") from None


def _rows(name: str, text: str) -> ArrayLike:
    rows = _decimals(name, text)
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{name} must be a list of rows, such as [[0.7, 0.3], [0.2, 0.8]], got {text[:60]!r}")
    return rows


def _arrays(path: Path) -> Sequence[Sample]:
    """Samples along the first axis; omega and V may be the same for all."""
    arrays = read_arrays("--input", path, _NAMES)
    if arrays["y"].ndim != 3 or not len(arrays["y"]):
        raise ValueError(f"{path}: y must have shape (samples, M, M), got {arrays['y'].shape}")
    count = len(arrays["y"])
    for name in ("omega", "V"):
        array = arrays[name]
        if array.ndim == 2:
            arrays[name] = np.broadcast_to(array, (count, *array.shape))
        elif array.ndim != 3 or len(array) != count:
            raise ValueError(f"{path}: {name} must be one matrix, or {count} as y has; got shape {array.shape}")
    return _Samples(arrays)


class _Samples(Sequence[Sample]):
    """Samples along the first axis of arrays, made when they are asked for: there may be millions."""

    def __init__(self, arrays: dict[str, Numbers]) -> None:
        self._arrays = arrays

    def __len__(self) -> int:
        return len(self._arrays["y"])

    def __getitem__(self, k: int) -> Sample:  # type: ignore[override]
        return {name: array[k] for name, array in self._arrays.items()}


def _digits(args: argparse.Namespace) -> int:
    return _DIGITS if args.digits is None else int(args.digits)


def _precise(
    args: argparse.Namespace, model: Network, given: list[ArrayLike], progress: "Progress | None"
) -> tuple[Record, str]:
    """Record and text of one sample, to many digits."""
    result = al.denoise(
        model,
        *given,
        digits=_digits(args),
        skip=repr(model.skip),  # the shortest decimal: what was typed
        beta=repr(model.beta),
        max_nodes=args.max_nodes,
        progress=progress,
    )
    value, g_out, dg_out = result.texts()
    record: Record = {"value": value, "error": result.printed_error, "how": result.how, "route": result.route}
    text = _text(value, g_out, dg_out, f"error {result.printed_error:.1e} ({result.how}; {result.route})")
    return record | {"g_out": g_out, "dg_out": dg_out, "nodes": result.nodes}, text


def _sampled(args: argparse.Namespace, model: Network, given: list[ArrayLike]) -> tuple[Record, str]:
    """Record and text of one sample by a posterior sampled on a chart, with the error of every entry."""
    arrays = [np.asarray(entries, dtype=np.float64) for entries in given]
    result = al.denoise(model, *arrays, tol=args.tol, max_nodes=args.max_nodes, rng=args.seed)
    assert isinstance(result, EntrywiseDenoiserResult)
    texts = np.vectorize(pm, otypes=[str])
    log_z = pm(float(result.log_z), float(result.log_z_error))
    shown = _text(
        log_z,
        texts(result.g_out, result.g_error).tolist(),
        texts(result.dg_out, result.dg_error).tolist(),
        f"largest relative error {float(result.error):.1e} ({result.how}; {int(result.nodes)} nodes)",
    )
    record: Record = {
        "value": recorded(float(result.log_z), float(result.log_z_error)),
        "error": float(result.log_z_error),
        "how": result.how,
        "route": "posterior sampled on a chart",
        "g_out": as_dict(result.g_out),
        "g_error": as_dict(result.g_error),
        "dg_out": as_dict(result.dg_out),
        "dg_error": as_dict(result.dg_error),
        "nodes": int(result.nodes),
        "seed": args.seed,
    }
    return record, shown


def _text(value: str, g_out: list[list[str]], dg_out: list[list[list[list[str]]]], error: str) -> str:
    lines = [f"log Z = {value}", "g_out:", *("  " + "  ".join(row) for row in g_out)]
    lines.append("d g_out / d omega, indices times tokens:")
    for block in dg_out:
        lines += ["  " + "  ".join(entry for row in line for entry in row) for line in block]
    return "\n".join([*lines, error])
