"""What `attnlimits derive`, `attnlimits threshold` and `attnlimits evolve` do with `--link`.

What comes from where: `link_kernels` has the kernels, `link_thresholds` and `link_evolution` the numbers.
"""

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.results import EvolutionResult, as_dict
from ..model.link_kernels import kernel_of, noiseless_of, source_of
from ..model.link_store import Request, write_kernel
from ..model.links import LinkKernel, load_link
from ..thresholds import exact
from ..thresholds.link.staircase import staircase
from ..thresholds.link.thresholds import MAX_DIGITS, LinkThreshold
from .flags import NODES

__all__ = ["derive", "evolve", "fixed_point", "kernel_of", "threshold"]

# What the table gives where no digits are asked for.
_TABLE_DIGITS = 15

Outcome = tuple[dict[str, Any], str, bool]


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    noise = getattr(args, "noise", None)
    if isinstance(noise, float) and not math.isfinite(noise):
        raise ValueError(f"--noise must be a finite number >= 0, got {noise}")
    return {
        "tokens": getattr(args, "link_tokens", None),
        "indices": getattr(args, "indices", None),
        "noise": "0" if noise is None else str(noise),
    }


def derive(args: argparse.Namespace) -> Outcome:
    """Derive the link and write its kernel.

    Parameters
    ----------
    args : argparse.Namespace
        `link`: the text; optional: `noise`, `indices`, `link_tokens`, and `out`, a folder to write to instead of
        the cache.

    Returns
    -------
    record, text, ok
    """
    wanted = _arguments(args)
    out: Path | None = getattr(args, "out", None)
    if out is None:
        kernel = kernel_of(args.link, **wanted, fresh=True)
    else:
        out.mkdir(parents=True, exist_ok=True)
        kernel = load_link(write_kernel(out, source_of(Request(args.link, **wanted))))
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
    """Threshold of a link, or with `staircase` one after the other.

    Parameters
    ----------
    args : argparse.Namespace
        `link`: the text; optional: `noise`, `digits`, `staircase`, `indices`, `link_tokens`.

    Returns
    -------
    record, text, converged
        `value` is None, and `exact` "oo" where that is proved, if the threshold is infinite at this order; where
        only a lower bound is known, it is in `at_least`.
    """
    from ..thresholds.link import thresholds as link_thresholds

    digits = getattr(args, "digits", None)
    if digits is not None and not 1 <= digits <= MAX_DIGITS:
        raise ValueError(f"--digits must be from 1 to {MAX_DIGITS}, got {digits}")
    wanted = _arguments(args)
    asked = kernel = kernel_of(args.link, **wanted)
    if limit := link_thresholds.unresolved_noise(asked):
        wanted["noise"] = "0"
        kernel = kernel_of(args.link, **wanted)
    if not getattr(args, "staircase", False):
        result = _with_exact(link_thresholds.threshold(kernel, digits=digits), kernel, digits)
        result = _as_limit(result, limit, asked) if limit else result
        return as_dict(result) | _about(asked), f"{asked.describe()}\n{_line(result)}", result.converged
    stairs = staircase(kernel, digits=digits, rotate=lambda axes: kernel_of(args.link, **wanted, axes=axes))
    if limit:
        stairs = replace(
            stairs,
            steps=tuple(_as_limit(step, limit, asked) for step in stairs.steps),
            origin=stairs.origin.with_model(noise=asked.noise),
        )
    first = stairs.steps[0]
    record = as_dict(stairs) | _about(asked) | {"value": first.value, "error": first.error, "how": first.how}
    lines = [asked.describe(), *(_line(step) for step in stairs.steps), stairs.status]
    return record, "\n".join(lines), stairs.converged


def evolve(args: argparse.Namespace) -> tuple[EvolutionResult, dict[str, Any]]:
    """Fixed point of the state evolution of a link.

    Parameters
    ----------
    args : argparse.Namespace
        `link`: the text, `alpha`, `start`, `tol`, `max_iter`, `samples`, `replicas`, `seed`, `nodes` (twice as many
        as usual double those of the posterior); optional: `noise`, `indices`, `link_tokens`.

    Returns
    -------
    result, about
        `about` names the link, its noise and the hash of its kernel.
    """
    if args.nodes < NODES or args.nodes % NODES:
        raise ValueError(f"--nodes must be a multiple of {NODES} with --link, got {args.nodes}")
    asked = kernel_of(args.link, **_arguments(args))
    result = fixed_point(
        asked,
        args.link,
        args.alpha,
        start=args.start,
        samples=args.samples,
        replicas=args.replicas,
        inner=args.nodes // NODES,
        tol=args.tol,
        max_iter=args.max_iter,
        rng=args.seed,
    )
    return result, _about(asked)


def fixed_point(asked: LinkKernel, text: str, alpha: float, **settings: Any) -> EvolutionResult:
    """Fixed point of the state evolution of a link, whatever its noise: the same for every verb that gives one.

    Parameters
    ----------
    asked : LinkKernel
    text : str
        What it was derived from.
    alpha : float
    settings : optional
        Of `link_evolution.evolve`.
    """
    from ..fixed_point import link as link_evolution
    from ..thresholds.link.thresholds import unresolved_noise

    if not (limit := unresolved_noise(asked)):
        return link_evolution.evolve(asked, alpha, noiseless=noiseless_of(asked, text), **settings)
    kernel = kernel_of(text, tokens=asked.tokens, indices=asked.indices)
    result = link_evolution.evolve(kernel, alpha, **settings)
    status = f"{result.status}; {limit}: this is the fixed point without noise, its limit"
    return replace(result, status=status, origin=result.origin.with_model(noise=asked.noise))


def _as_limit(result: LinkThreshold, reason: str, asked: LinkKernel) -> LinkThreshold:
    """The threshold without noise, given where the noise is too small for float64."""
    status = f"{result.status}; {reason}: this is the threshold without noise, its limit"
    result = replace(result, origin=result.origin.with_model(noise=asked.noise))
    # Noise keeps what vanishes and what does not; a closed number it changes, if by less than float64 tells.
    if result.exact in (None, "0", "oo"):
        return replace(result, status=status)
    return replace(result, status=status, exact=None, how="estimated")


def _with_exact(result: LinkThreshold, kernel: LinkKernel, digits: int | None) -> LinkThreshold:
    """Add the exact form of the table of derived thresholds, if it has this link and agrees; and digits it has more."""
    if result.exact is not None or result.value is None or result.error is None or kernel.noise or not kernel.table:
        return result
    found = exact.link(kernel.table) if digits is None else exact.link(kernel.table, digits=digits)
    if found is None or found.value is None:
        return result
    # Half a unit of the last digit of each.
    rounding = 0.5 * 10.0 ** (math.floor(math.log10(float(found.value))) - (digits or _TABLE_DIGITS) + 1)
    if abs(float(found.value) - float(result.value)) > result.error + rounding:
        status = f"{result.status}; but the derived value of this link is {found.value}: please report it"
        return replace(result, converged=False, status=status)
    if result.converged:
        return replace(result, exact=found.exact)
    status = f"converged: the derived integral, with which the quadrature agrees to {result.error:.0e}"
    return replace(result, exact=found.exact, value=found.value, error=rounding, converged=True, status=status)


def _about(kernel: LinkKernel) -> dict[str, Any]:
    return {"model": kernel.describe(), "link": list(kernel.text), "noise": kernel.noise, "hash": kernel.kernel_hash}


def _line(result: LinkThreshold) -> str:
    if result.at_least is not None:
        return f"alpha > {result.at_least:.1e} ({result.how}); {result.status}"
    if result.value is None:
        return f"alpha: none; {result.status}"
    exact = f" = {result.exact}" if result.exact and result.exact != result.value else ""
    exact += " exactly" if result.exact and result.how == "rigorous" else ""
    return f"alpha({result.subspace}) = {result.value}{exact}\nerror {result.error:.1e} ({result.how}); {result.status}"
