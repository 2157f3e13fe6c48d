"""Flags of networks that are no plain layers: a list of blocks, a mask, correlated tokens."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..core.array_files import read_array
from ..model.network import Network
from .link_flags import noise_of

__all__ = ["BLOCK_DEFAULTS", "array_or_words", "block_flags", "is_listed", "listed"]

#: What these flags are where nobody gives them.
BLOCK_DEFAULTS: dict[str, object] = {"blocks": None, "mask": None, "token_covariance": None}


def block_flags(group: Any) -> None:
    """Add the flags."""
    group.add_argument(
        "--blocks",
        metavar="LIST",
        help='a list of blocks in place of the other flags, "attention(causal) | residual | norm | attention(rank=2)": '
        "attention(causal, window:k, mask=10/11, rank=r, untied, beta=b, activation=f), residual(c, over=n), "
        "norm(rms or layer), mlp(k, f, bare), readout(mlp, k, f), readout(linear or softmax, k, token=m), "
        "readout(mean), output(sequence), output(token=m)",
    )
    group.add_argument(
        "--mask",
        metavar="MASK",
        help="tokens that each row sees in every layer: causal, window:k, or a file of 0 and 1",
    )
    group.add_argument(
        "--token-covariance", metavar="C", help="covariance of the tokens: ar1:rho, or a file with an M x M matrix"
    )


def is_listed(args: argparse.Namespace) -> bool:
    """Whether the flags describe such a network."""
    return any(getattr(args, name, None) is not None for name in BLOCK_DEFAULTS)


def listed(args: argparse.Namespace, usual: dict[str, object]) -> Network:
    """Return the network of the flags.

    Raises
    ------
    ValueError
        A list stands beside the flags that it replaces; a file cannot be read; as `Network`.
    """
    covariance = array_or_words("--token-covariance", args.token_covariance)
    tokens = 2 if args.tokens is None else int(args.tokens)
    if args.blocks is not None:
        for name, value in usual.items():
            if name not in ("tokens", *BLOCK_DEFAULTS) and getattr(args, name, value) != value:
                raise ValueError(f"--{name} describes layers, and --blocks stands instead of them; leave one out")
        if args.mask is not None:
            raise ValueError('--mask is of layers; in --blocks an attention has its own: "attention(causal)"')
        return Network(args.blocks, tokens, noise=noise_of(args), token_covariance=covariance)
    return Network(
        2 if args.layers is None else args.layers,
        tokens,
        args.rank,
        1.0 if args.skip is None else float(args.skip),
        1.0 if args.beta is None else float(args.beta),
        activation=args.activation,
        tied=not args.untied,
        heads=args.heads,
        output=args.output,
        noise=noise_of(args),
        mask=array_or_words("--mask", args.mask),
        token_covariance=covariance,
    )


def array_or_words(flag: str, text: str | None) -> Any:
    """A word that stands for an array, or the array of a file (.npy, or numbers in rows of text)."""
    if text is None or ":" in text or not Path(text).suffix:
        return text
    if Path(text).suffix == ".npy":
        return read_array(flag, Path(text))
    try:
        return np.loadtxt(text, ndmin=2, delimiter="," if Path(text).suffix == ".csv" else None)
    except (OSError, ValueError) as error:
        raise ValueError(f"{flag}: {text} holds no rows of numbers: {error}") from None
