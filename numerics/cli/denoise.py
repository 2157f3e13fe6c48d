"""The verb `denoise`: log Z, g_out and d g_out of single outputs, to any number of digits, integrated or sampled."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

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
from ..model.described import Model
from ..model.link import Link
from ..model.network import Network
from ..model.routes import require, serving
from ..posterior.entrywise import EntrywiseDenoiserResult
from .flags import attention, check_link, link_flags, link_of, model_flags
from .verbs import Outcome, Record, Verbs, add_verb, shown

if TYPE_CHECKING:
    from ..posterior.precise.sum import Progress

__all__ = ["add", "run"]

Sample: TypeAlias = dict[str, ArrayLike]

_NAMES = ("y", "omega", "V")
# Digits where nobody gives them, and the most of integrals in float64.
_DIGITS, _MOST_DIGITS = 15, 12
# Bytes in memory of a byte of JSON, at most: an empty list of two bytes is an object of 56, and 8 to point to it.
_JSON = 32


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "denoise",
        run,
        "log Z, g_out and its derivative for single outputs: tied and rank 1 to any number of digits, one layer and "
        "links integrated, others sampled",
        "attnlimits denoise --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2], [0, 0.3]]' "
        "--V '[[1, 0.1], [0.1, 0.5]]' --digits 50",
    )
    model_flags(parser)
    link_flags(parser)
    group = parser.add_argument_group("sample")
    group.add_argument(
        "--y",
        metavar="ROWS",
        help="output, M x M: '[[0.7, 0.3], [0.2, 0.8]]', or K of a link: '[0.5]'; decimals are exact",
    )
    group.add_argument("--omega", metavar="ROWS", help="prior means of the indices, P x M")
    group.add_argument("--V", metavar="ROWS", help="prior covariance of the indices, P x P")
    group.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="instead: .json with an object of y, omega and V or a list of such, or .npz with arrays of these names, "
        "samples along the first axis of y",
    )
    parser.add_argument(
        "--digits",
        type=int,
        help=f"digits, 5 to 200, of tied weights of rank 1 (default: {_DIGITS}); of one layer and of links at most "
        f"{_MOST_DIGITS}, instead of --accuracy",
    )
    parser.add_argument(
        "--accuracy",
        type=float,
        help="largest error of an entry, relative to the largest one (default: 1e-8 of an integral over at most one "
        "coordinate, 1e-5 over two, 1e-3 over more; 0.01 of a network that is sampled)",
    )
    group = parser.add_argument_group("sampling")
    group.add_argument("--tol", type=float, help="another name of --accuracy")
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
    if args.accuracy is not None and args.tol is not None:
        raise ValueError("--tol is another name of --accuracy; give one of them")
    check_link(args)
    model = attention(args, "denoise") if args.link is None else link_of(args)
    output_file(args.out, stream=True)
    precise = isinstance(model, Network) and bool(serving("denoise-mp", model))
    if precise and (args.accuracy is not None or args.tol is not None):
        raise ValueError("--accuracy is of integrals and samples; tied weights of rank 1 have --digits")
    if not precise and (not _route(model) or (args.digits is not None and not _integrated(model))):
        require("denoise-mp", model)
    samples, single = _samples(args, 1 if isinstance(model, Link) else 2)
    made: list[Record] = []
    about: Record = {"model": model.describe()} | ({"digits": _digits(args)} if precise else {})
    status, interrupted = "", False
    bar = Bar("denoise", show=shown(args))
    out: IO[str] | None = None
    try:
        for k, sample in enumerate(samples):
            progress = bar.to if single else None
            try:
                given = [sample[name] for name in _NAMES]
                record, text = (
                    _precise(args, cast(Network, model), given, progress) if precise else _entrywise(args, model, given)
                )
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


def _samples(args: argparse.Namespace, axes: int) -> tuple[Sequence[Sample], bool]:
    """Return the samples, and whether there is only the one of the flags or of an object in a file.

    An output has `axes` axes.
    """
    given = {name: getattr(args, name) for name in _NAMES}
    if args.input is None:
        rows = {
            name: _rows(f"--{name}", text, flat=name == "y" and axes == 1)
            for name, text in given.items()
            if text is not None
        }
        missing = [f"--{name}" for name in given if name not in rows]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing: give --y, --omega and --V, or --input FILE")
        return [rows], True
    if any(text is not None for text in given.values()):
        raise ValueError("--input holds y, omega and V; leave --y, --omega and --V out")
    if args.input.suffix == ".npz":
        return _arrays(args.input, axes), False
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


def _rows(name: str, text: str, *, flat: bool) -> ArrayLike:
    """A list of rows, or of numbers."""
    rows = _decimals(name, text)
    if flat and isinstance(rows, list) and not any(isinstance(row, list | dict) for row in rows):
        return rows
    if flat or not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        wanted = "of the outputs, such as [0.5]" if flat else "of rows, such as [[0.7, 0.3], [0.2, 0.8]]"
        raise ValueError(f"{name} must be a list {wanted}, got {text[:60]!r}")
    return rows


def _arrays(path: Path, axes: int) -> Sequence[Sample]:
    """Samples along the first axis; omega and V may be the same for all."""
    arrays = read_arrays("--input", path, _NAMES)
    if arrays["y"].ndim != 1 + axes or not len(arrays["y"]):
        wanted = "(samples, K)" if axes == 1 else "(samples, M, M)"
        raise ValueError(f"{path}: y must have shape {wanted}, got {arrays['y'].shape}")
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


def _accuracy(args: argparse.Namespace) -> float | None:
    """What is asked for where there are not many digits."""
    given: float | None = args.tol if args.accuracy is None else args.accuracy
    if args.digits is None:
        return given
    if given is not None:
        raise ValueError("--digits are an accuracy; leave --accuracy and --tol out")
    if not 1 <= args.digits <= _MOST_DIGITS:
        raise ValueError(
            f"--digits must be in [1, {_MOST_DIGITS}] of what is integrated in float64, got {args.digits}; only tied "
            "weights of rank 1 have more"
        )
    return float(10.0**-args.digits)


def _integrated(model: Model) -> bool:
    return isinstance(model, Link) or bool(serving("fibre", model))


def _route(model: Model) -> str:
    """How a posterior that is not of many digits is computed; empty where it is not."""
    if isinstance(model, Link):
        return "integral over what the output leaves open"
    if serving("fibre", model):
        return "integral over the fibre of the output"
    routes = serving("denoise-sampled", model)
    return routes[0].name if routes else ""


def _entrywise(args: argparse.Namespace, model: Model, given: list[ArrayLike]) -> tuple[Record, str]:
    """Record and text of one sample whose posterior is integrated or sampled, with the error of every entry."""
    arrays = [np.asarray(entries, dtype=np.float64) for entries in given]
    accuracy = _accuracy(args)
    settings: dict[str, Any] = {} if accuracy is None else {"accuracy": accuracy}
    if isinstance(model, Link) or not _integrated(model):
        settings |= {"max_nodes": args.max_nodes, "rng": args.seed}
    result = al.denoise(model, *arrays, **settings)
    assert isinstance(result, EntrywiseDenoiserResult)
    texts = np.vectorize(pm, otypes=[str])
    log_z = pm(float(result.log_z), float(result.log_z_error))
    shown = _text(
        log_z,
        texts(result.g_out, result.g_error).tolist(),
        texts(result.dg_out, result.dg_error).tolist(),
        f"largest relative error {float(result.error):.1e} ({result.how}; {_route(model)})",
    )
    record: Record = {
        "value": recorded(float(result.log_z), float(result.log_z_error)),
        "error": float(result.log_z_error),
        "how": result.how,
        "route": _route(model),
        "g_out": as_dict(result.g_out),
        "g_error": as_dict(result.g_error),
        "dg_out": as_dict(result.dg_out),
        "dg_error": as_dict(result.dg_error),
        "nodes": int(result.nodes),
    }
    return record | ({"seed": args.seed} if result.how == "monte-carlo" else {}), shown


def _text(value: str, g_out: list[list[str]], dg_out: list[list[list[list[str]]]], error: str) -> str:
    lines = [f"log Z = {value}", "g_out:", *("  " + "  ".join(row) for row in g_out)]
    lines.append("d g_out / d omega, indices times tokens:")
    for block in dg_out:
        lines += ["  " + "  ".join(entry for row in line for entry in row) for line in block]
    return "\n".join([*lines, error])
