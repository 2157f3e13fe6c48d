"""The verb `aim denoise`: the matrix denoiser, its error and its estimate of a matrix."""

import argparse
from pathlib import Path

import attnlimits as al

from ...core.array_files import read_array, write_array
from ...core.destinations import output_file
from ..verbs import Outcome, Record, Verbs, add_verb

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "denoise",
        run,
        "the matrix denoiser: its error, and the estimate of a matrix of your own",
        "attnlimits aim denoise --rho 0.5 --delta 0.1 --digits 30",
        nested=True,
    )
    parser.needs(
        parser.add_argument("--rho", help="width r/d, exactly as 0.1 or 1/3"),
        parser.add_argument("--delta", help="variance of the noise, likewise"),
    )
    parser.add_argument("--digits", type=int, help="significant digits, to 200 (default: those of float64)")
    parser.add_argument("--y", type=Path, metavar="FILE", help="symmetric matrix to denoise, a .npy file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the estimate there, as .npy")


def run(args: argparse.Namespace) -> Outcome:
    """Error of the denoiser, and the estimate of a matrix."""
    rho = al.aim.exact_number("rho", args.rho, "rho = r/d")
    delta = al.aim.exact_number("Delta", args.delta, "noise of the matrix denoiser")
    if args.out is not None and args.y is None:
        raise ValueError("--out is for the estimate of a matrix; give the matrix with --y")
    args.out = output_file(args.out, ".npy")
    name = f"S + sqrt(Delta) GOE, rho={args.rho}, Delta={args.delta}"
    if args.digits is None:
        plain = al.aim.mmse(float(rho), float(delta))
        text, error = repr(float(plain.value)), float(plain.error)
    else:
        precise = al.aim.mmse_digits(rho, delta, digits=args.digits)
        text, error = precise.value, precise.error
    record: Record = {
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


def _estimate(args: argparse.Namespace, rho: float, delta: float, record: Record, lines: list[str]) -> None:
    found = al.aim.denoise_matrix(read_array("--y", args.y), rho, delta)
    record["divergence"] = found.divergence
    lines.append(f"error that the estimate of {args.y.name} expects of itself: {found.divergence:.6f}")
    if args.out is None:
        record["estimate"] = found.estimate.tolist()
        return
    write_array(args.out, found.estimate)
    record["out"] = str(args.out)
    lines.append(f"wrote {args.out}")
