"""Flags of a teacher and of the methods that the verbs of `multihead` share, and the examples they describe."""

import argparse
import math

import numpy as np

import attnlimits as al

from ...core.typing import Array
from ..verbs import Record

__all__ = ["instance_of", "judged", "method_flags", "teacher_flags"]

_METHODS = ("auto", "sculpt", "restarts")
_FAMILIES = ("gauss", "corr", "sameW", "saturated", "lowrank", "parity")


def teacher_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a teacher and its examples."""
    group = parser.add_argument_group("teacher and examples")
    group.add_argument("--heads", "-H", type=int, default=2, metavar="m", help="heads (default: %(default)s)")
    group.add_argument("--seq", type=int, default=2, metavar="k", help="tokens (default: %(default)s)")
    group.add_argument("--dim", type=int, default=8, metavar="d", help="dimension (default: %(default)s)")
    group.add_argument("--samples", type=int, default=3000, metavar="N", help="examples (default: %(default)s)")
    group.add_argument("--noise", type=float, default=0.0, help="over the size of the outputs (default: %(default)s)")
    group.add_argument("--family", choices=_FAMILIES, default="gauss", help="default: %(default)s")
    group.add_argument("--scale", type=float, help="standard deviation of logit differences (default: of the family)")
    group.add_argument("--seed", type=int, default=0, help="default: %(default)s")


def method_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of how a layer is learned."""
    parser.add_argument("--method", choices=_METHODS, default="auto", help="default: %(default)s")
    parser.add_argument("--starts", type=int, default=8, help="random starts at most (default: %(default)s)")


def instance_of(args: argparse.Namespace) -> "tuple[Array, Array, al.multihead.TeacherData]":
    """Teacher and examples that the flags describe, from one generator per use of the seed."""
    for flag in ("heads", "seq", "dim", "samples"):
        al.multihead.count(f"--{flag}", getattr(args, flag))
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    if not (math.isfinite(args.noise) and args.noise >= 0):
        raise ValueError(f"--noise must be finite and >= 0, got {args.noise:g}")
    asked = f"--samples {args.samples} --seq {args.seq} --dim {args.dim} --heads {args.heads}"
    al.multihead.refuse_size(asked, args.samples, args.seq, args.dim, args.heads)
    theta, w = al.multihead.make_teacher(
        args.family, args.heads, args.dim, scale=args.scale, rng=np.random.default_rng([args.seed, 0])
    )
    generator = np.random.default_rng([args.seed, 1])
    made = al.multihead.make_examples(theta, w, samples=args.samples, tokens=args.seq, noise=args.noise, rng=generator)
    return theta, w, made


def judged(
    args: argparse.Namespace, found: "al.multihead.MultiheadFit | al.multihead.SculptResult", theta: Array, w: Array
) -> Record:
    """The learned layer beside the true one, as part of a record."""
    comparison = al.multihead.compared(found.theta, found.w, theta, w, tokens=args.seq, seed=args.seed)
    return {
        "value": f"{comparison.error.value:.6g}",
        "quantity": "E |F' - F|^2 / E |F|^2 of the learned layer F'",
        "error": comparison.error.error,
        "how": comparison.error.how,
        "test_error": comparison.error.value,
        "test_inputs": comparison.inputs,
        "parameter_error": comparison.parameter_error,
        **{name: getattr(args, name) for name in ("family", "seq", "dim", "samples", "noise", "scale", "seed")},
        "teacher_heads": args.heads,
    }
