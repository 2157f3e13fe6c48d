"""Flags that the verbs of the command share, and the models they describe."""

import argparse
from collections.abc import Callable
from typing import TypedDict

from ..core.memory import refuse_memory
from ..model.described import Model
from ..model.network import ACTIVATIONS, Network
from ..model.routes import serving
from .block_flags import BLOCK_DEFAULTS, block_flags, is_listed, listed
from .link_flags import link_flags, link_of, noise_of, number_of

__all__ = [
    "MODEL_DEFAULTS",
    "NODES",
    "SYMBOLIC_DEFAULTS",
    "attention",
    "check_accuracy",
    "check_link",
    "check_model",
    "check_output",
    "check_points",
    "check_sampling",
    "damping",
    "dask_flag",
    "described",
    "is_attention",
    "link_flags",
    "link_of",
    "model_flags",
    "model_of",
    "network_of",
    "noise_of",
    "refuse_label_noise",
    "refuse_model_flags",
    "sampling",
    "sampling_flags",
]

Matrices = tuple[tuple[tuple[float, ...], ...], ...]
OUTPUTS = ("last", "sequence")
#: Nodes of a sampled posterior where nobody gives them.
NODES = 2048
# What the flags of a model are where nobody gives them.
MODEL_DEFAULTS: dict[str, object] = {
    "layers": 2,
    "tokens": 2,
    "rank": 1,
    "heads": 1,
    "readouts": None,
    "skip": 1.0,
    "beta": 1.0,
    "activation": "softmax",
    "untied": False,
    "output": "last",
    **BLOCK_DEFAULTS,
}
SYMBOLIC_DEFAULTS = {name: value for name, value in MODEL_DEFAULTS.items() if name != "readouts"}
SYMBOLIC_DEFAULTS |= {"layers": None, "tokens": None, "skip": None, "beta": None}


def _ranks(text: str) -> int | tuple[int, ...]:
    try:
        values = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected one integer, or one per layer as in 1,2; got {text!r}") from None
    return values[0] if len(values) == 1 else values


def _readouts(text: str) -> Matrices:
    """Matrices of readout weights: rows between semicolons, layers between slashes."""
    try:
        layers = [[row.split(",") for row in layer.split(";")] for layer in text.split("/")]
        return tuple(tuple(tuple(float(entry) for entry in row) for row in rows) for rows in layers)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'expected an H x H matrix as in "1,0.3;-0.2,0.8", or one per layer between "/"; got {text!r}'
        ) from None


def damping(text: str) -> float | str:
    """A share of the old estimate, or "adaptive"."""
    try:
        return float(text)
    except ValueError:
        if text == "adaptive":
            return text
        raise argparse.ArgumentTypeError(f'expected a number in [0, 1) or "adaptive", got {text!r}') from None


def model_flags(parser: argparse.ArgumentParser, *, symbolic: bool = False) -> None:
    """Add the flags of a model; where `symbolic`, skip and beta stay symbols unless they are given."""
    group = parser.add_argument_group("model")
    group.add_argument("--layers", "-L", type=int, default=2, metavar="L", help="depth (default: %(default)s)")
    group.add_argument("--tokens", "-M", type=int, default=2, metavar="M", help="tokens (default: %(default)s)")
    group.add_argument("--rank", "-r", type=_ranks, default=1, metavar="r", help="rank, or one per layer: 1,2")
    group.add_argument("--heads", "-H", type=int, default=1, metavar="H", help="heads (default: %(default)s)")
    if not symbolic:
        group.add_argument(
            "--readouts",
            type=_readouts,
            metavar="o",
            help='weights that mix the heads after each layer, "1,0.3;-0.2,0.8", or one matrix per layer between "/" '
            "(default: the identity, heads that do not mix)",
        )
    number = {"type": str, "default": None} if symbolic else {"type": float, "default": 1.0}
    usual = "a symbol" if symbolic else "1"
    group.add_argument("--skip", "-c", metavar="c", help=f"skip strength (default: {usual})", **number)
    group.add_argument("--beta", "-b", metavar="b", help=f"inverse temperature (default: {usual})", **number)
    group.add_argument(
        "--activation", default="softmax", help=f"{', '.join(ACTIVATIONS)}, or a function of z (default: softmax)"
    )
    group.add_argument("--untied", action="store_true", help="keys and queries with weights of their own")
    group.add_argument(
        "--output", choices=OUTPUTS, default="last", help="attention of the last layer, or all tokens that leave it"
    )
    block_flags(parser.add_argument_group("other networks"))


def refuse_model_flags(args: argparse.Namespace, parser_defaults: dict[str, object]) -> None:
    """Refuse flags of a model beside --link, which replaces it."""
    for name, usual in parser_defaults.items():
        if getattr(args, name) != usual:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} describes a model, and --link stands instead of one; leave one of them out")


def check_link(args: argparse.Namespace) -> None:
    """Refuse flags of a model beside --link."""
    if args.link is not None:
        refuse_model_flags(args, MODEL_DEFAULTS)
    else:
        refuse_label_noise(args)


def refuse_label_noise(args: argparse.Namespace) -> None:
    """Refuse label noise without --link."""
    if number_of(args, "label-noise"):
        raise ValueError("--label-noise is of links with discrete outputs: it belongs to --link")


def sampling_flags(parser: argparse.ArgumentParser, *, samples: int | None = 4096, exact: int = 4096) -> None:
    """Add the flags of averages over random samples; None leaves their number to the model, usually `exact`."""
    group = parser.add_argument_group("sampling")
    usual = "%(default)s" if samples else f"{exact}, fewer where each takes long"
    group.add_argument("--samples", type=int, default=samples, help=f"points per randomisation (default: {usual})")
    group.add_argument("--replicas", type=int, default=8, help="independent randomisations (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="seed (default: %(default)s)")
    group.add_argument("--workers", type=int, help="threads (default: all cores)")


def dask_flag(parser: argparse.ArgumentParser, goes: str, *, workers: str = "") -> None:
    """Add --dask, the same for every verb that computes on a cluster.

    Parameters
    ----------
    parser : ArgumentParser
    goes : str
        What goes to the workers.
    workers : str, keyword-only
        What --workers are then, beyond the processes of a local cluster.
    """
    parser.add_argument(
        "--dask",
        metavar="WHERE",
        help=f"on a Dask cluster, {goes}: address of its scheduler, its scheduler file, or local; --workers are then "
        f"the processes of a local one{workers}",
    )


def check_accuracy(args: argparse.Namespace) -> None:
    """Refuse an accuracy that no model can be asked for."""
    if args.accuracy is not None and not 1e-12 <= args.accuracy <= 0.1:
        raise ValueError(f"--accuracy must be in [1e-12, 0.1], got {args.accuracy:g}")


def check_sampling(args: argparse.Namespace) -> None:
    """Refuse sampling flags out of range, also where this model would not use them."""
    for flag, least in (("samples", 1), ("replicas", 2), ("seed", 0), ("workers", 1)):
        value = getattr(args, flag)
        if value is not None and value < least:
            raise ValueError(f"--{flag} must be >= {least}, got {value}")
    for flag in ("samples", "nodes"):
        value = getattr(args, flag, None)
        if value is not None:
            # At the least: indices and output of every point, in every randomisation or for every output at a time.
            entries, model = 1, ""
            # One layer, and links, do without samples or have few entries.
            if args.link is None and args.layers > 1:
                entries = max(args.tokens, 1) * (max(args.layers, 1) + max(args.tokens, 1))
                model = f" of --layers {args.layers} --tokens {args.tokens}"
            times = f" times --replicas {args.replicas}" if flag == "samples" else ""
            size = 8 * value * entries * (args.replicas if times else 1)
            refuse_memory(f"--{flag} {value}{times}{model}", size, "give less of the largest of these")


class Sampling(TypedDict):
    """Settings of averages over random samples, as the public functions name them."""

    samples: int | None
    replicas: int
    rng: int
    workers: int | None


def sampling(args: argparse.Namespace) -> Sampling:
    """Return what `sampling_flags` were given."""
    return {"samples": args.samples, "replicas": args.replicas, "rng": args.seed, "workers": args.workers}


def check_points(count: int) -> None:
    """Refuse more points than memory has room for, some kilobyte each."""
    refuse_memory(f"--points {count}", 1000 * count, "give fewer points")


def check_output(args: argparse.Namespace) -> None:
    """Refuse a model of which not even one output fits into memory."""
    if getattr(args, "link", None) is None:
        refuse_memory(f"--tokens {args.tokens} (an output is M x M)", 8 * args.tokens**2, "take fewer tokens")


def is_attention(args: argparse.Namespace) -> bool:
    """Whether the flags describe the model of the main text: tied, one head, attention of the last layer."""
    if args.heads < 1:
        raise ValueError(f"--heads must be >= 1, got {args.heads}")
    return args.heads == 1 and not args.untied and args.output == "last"


def check_model(verb: str) -> Callable[[argparse.Namespace], None]:
    """Return what refuses bad flags of a model and of sampling, before other flags are asked for."""

    def check(args: argparse.Namespace) -> None:
        if hasattr(args, "samples"):
            check_sampling(args)
            check_output(args)
        model_of(args, verb)

    return check


#: Verbs that serve other networks than that of the main text, and what their routes are called.
_ROUTES = {
    "threshold": "last layer",
    "evolve": "evolve",
    "curve": "curve",
    "free-energy": "free energy",
    "gamp": "gamp",
    "make-data": "gamp",
    "denoise": "denoise-sampled",
    "descend": "descend",
}


# Heads that several layers mix, at most: far more than any route serves.
_MOST_HEADS = 1000


def readouts_of(args: argparse.Namespace) -> Matrices | None:
    """Readout weights of the flags, one matrix for every layer that mixes the heads."""
    count = 0 if args.heads == 1 else args.layers if args.output == "sequence" else args.layers - 1
    given: Matrices | None = getattr(args, "readouts", None)
    if given is None:
        if args.layers == 1:
            return None
        if args.heads > _MOST_HEADS:
            raise ValueError(f"--heads must be at most {_MOST_HEADS} for several layers (30), got {args.heads}")
        identity = tuple(tuple(float(a == b) for b in range(args.heads)) for a in range(args.heads))
        return (identity,) * count
    return given * count if len(given) == 1 and count else given


def described(args: argparse.Namespace, heads: int = 1) -> Network:
    """Return the network that the flags describe, served or not."""
    if is_listed(args):
        return listed(args, MODEL_DEFAULTS)
    return Network(
        args.layers,
        args.tokens,
        args.rank,
        args.skip,
        args.beta,
        args.activation,
        tied=not args.untied,
        heads=heads,
        output=args.output,
        readouts=readouts_of(args) if heads > 1 else getattr(args, "readouts", None),
        noise=noise_of(args),
    )


def attention(args: argparse.Namespace, verb: str) -> Network:
    """Return the network of the flags; refuse in their words what a verb does not serve."""
    if not is_attention(args):
        if args.heads == 1 or args.layers > 1 or verb == "descend":
            network = described(args, args.heads)
            plain = args.heads == 1 and (args.output == "last" or network.noise)
            if verb in _ROUTES and (plain or serving(_ROUTES[verb], network)):
                return network
        used = "--heads" if args.heads != 1 else "--untied" if args.untied else "--output sequence"
        why = "it needs tied weights, one head and the last layer's attention as output"
        if verb in ("threshold", "evolve"):
            why += f"; for --layers 1 there are {'thresholds' if verb == 'threshold' else 'fixed points'} of all"
        raise ValueError(f"{used} is not served by `{verb}` at L = {args.layers}: {why}")
    return described(args)


def model_of(args: argparse.Namespace, verb: str) -> Model:
    """Return the link or the network of the flags, as far as `verb` serves it."""
    check_link(args)
    return network_of(args, verb) if args.link is None else link_of(args)


def network_of(args: argparse.Namespace, verb: str) -> Network:
    """Return the network of the flags, as far as `verb` serves it: of heads side by side, one of them."""
    if is_listed(args):
        return listed(args, MODEL_DEFAULTS)
    if args.layers == 1 and not noise_of(args) and _is_one_head(args, verb):
        if args.untied:
            return Network(1, args.tokens, args.rank, activation=args.activation, tied=False, beta=args.beta)
        return Network(1, args.tokens, args.rank, args.skip, args.beta, args.activation)
    return attention(args, verb)


def _is_one_head(args: argparse.Namespace, verb: str) -> bool:
    """Whether a verb serves one layer of these flags, which is not the model of the main text, by one of its heads."""
    if verb == "evolve":
        return not is_attention(args)
    return args.untied and args.heads == 1 and (verb == "free-energy" or args.output == "last")
