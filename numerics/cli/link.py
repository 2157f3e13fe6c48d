"""What `derive`, `threshold` and `evolve` do with `--link`."""

import argparse
from typing import TYPE_CHECKING

import attnlimits as al

from ..core.derived import write_source
from ..core.results import EvolutionResult, as_dict
from ..model.link import MAX_DIGITS
from ..model.link_kernels import kernel_of, source_of
from ..model.link_store import Request
from ..model.links import LinkKernel, load_link
from .flags import NODES, link_of
from .prior_flags import prior_of, rows_of
from .spectrum_flags import spectrum_given
from .verbs import Outcome, Record

if TYPE_CHECKING:
    from ..thresholds.link.staircase import Given
    from ..thresholds.link.thresholds import LinkThreshold

__all__ = ["derive", "evolve", "threshold"]


def derive(args: argparse.Namespace) -> Outcome:
    """Derive the link `args.link` with `args.noise`; write its kernel to the folder `args.out`, or to the cache."""
    if args.out is None:
        kernel = kernel_of(args.link, noise=args.noise, fresh=True)
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        kernel = load_link(write_source(args.out, source_of(Request(args.link, noise=args.noise))))
    record = _about(kernel) | {
        "folder": str(kernel.path.parent),
        "path": str(kernel.path),
        "kind": kernel.kind,
        "regions": len(kernel.regions),
        "ok": True,
        "status": "kernel written",
    }
    exact = f"\nalpha = {kernel.exact} exactly: {kernel.reason}" if kernel.exact is not None else ""
    text = (
        f"{kernel.describe()}\n{kernel.kind}; regions: {len(kernel.regions)}{exact}\n"
        f"kernel {kernel.kernel_hash}\nin {kernel.path.parent}"
    )
    return record, text, True


def threshold(args: argparse.Namespace) -> Outcome:
    """Threshold of the link `args.link`, or with `args.staircase` one after the other.

    In the record `value` is None, and `exact` "oo" where that is proved, if the threshold is infinite at this order;
    where only a lower bound is known, it is in `at_least`.
    """
    digits = args.digits
    if digits is not None and not 1 <= digits <= MAX_DIGITS:
        raise ValueError(f"--digits must be from 1 to {MAX_DIGITS}, got {digits}")
    link = link_of(args)
    kernel = link.kernel
    if not args.staircase:
        if args.given is not None:
            raise ValueError("--given belongs to --staircase: a threshold of a link is from zero overlap")
        if getattr(args, "row_covariance", None) is not None:
            link = rows_of(args).whitened(link)
            kernel = link.kernel
        result = al.threshold(link, digits=digits, spectrum=spectrum_given(args))
        return as_dict(result) | _about(kernel), f"{kernel.describe()}\n{_line(result)}", result.converged
    given: Given = args.given or "self-consistent"
    stairs = al.staircase(link, digits=digits, given=given, prior=prior_of(args), accuracy=args.accuracy)
    first = stairs.steps[0]
    record = as_dict(stairs) | _about(kernel) | {"value": first.value, "error": first.error, "how": first.how}
    lines = [kernel.describe(), *(_line(step) for step in stairs.steps), stairs.status]
    return record, "\n".join(lines), stairs.converged and stairs.reached


def evolve(args: argparse.Namespace) -> tuple[EvolutionResult, Record]:
    """Fixed point of the state evolution of the link `args.link`, and what names it.

    `args.nodes`, twice as many as usual, doubles those of the posterior.
    """
    if args.nodes < NODES or args.nodes % NODES:
        raise ValueError(f"--nodes must be a multiple of {NODES} with --link, got {args.nodes}")
    link = link_of(args)
    result = al.evolve(
        link,
        args.alpha,
        start=args.start,
        samples=args.samples or 4096,
        replicas=args.replicas,
        inner=args.nodes // NODES,
        tol=args.tol,
        max_iter=args.max_iter,
        rng=args.seed,
        client=args.dask,
        prior=prior_of(args),
        accuracy=args.accuracy,
        workers=args.workers,
    )
    return result, _about(link.kernel)


def _about(kernel: LinkKernel) -> Record:
    named = {"model": kernel.describe(), "link": list(kernel.text), "noise": kernel.noise}
    return named | {"label_noise": kernel.replaced, "hash": kernel.kernel_hash}


def _line(result: "LinkThreshold") -> str:
    if result.at_least is not None:
        return f"alpha > {result.at_least:.1e} ({result.how}); {result.status}"
    if result.value is None:
        return f"alpha: none; {result.status}"
    exact = f" = {result.exact}" if result.exact and result.exact != result.value else ""
    exact += " exactly" if result.exact and result.how == "rigorous" else ""
    return f"alpha({result.subspace}) = {result.value}{exact}\nerror {result.error:.1e} ({result.how}); {result.status}"
