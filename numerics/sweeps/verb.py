"""A verb of the command as a task of a sweep: flags are its parameters, and what `--json` prints is its record."""

import argparse
import contextlib
import io
import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from ..cli import evolve, threshold
from ..cli.flags import network_of
from ..cli.verbs import command_line
from ..core.identity import route_identity
from ..model.charts import derivation
from ..model.kernels import kernel_modules
from ..model.link_store import Request
from ..model.routes import CHART, CHART_OPERATOR, preferred

__all__ = ["EVOLVE", "THRESHOLD", "Parameters", "Verb"]

Parameters = Mapping[str, Any]


def _threshold_cost(p: Parameters) -> float:
    if p["link"] is not None or p["layers"] == 1:
        return 1.0
    if p["layer"] not in (None, p["layers"]):
        return 1e5
    digits = p["digits"] or 12
    return float(digits**2 * 30.0 ** min(p["layers"] + p["tokens"] - 4, 20) * (1 + 1 / p["skip"]))


def _evolve_cost(p: Parameters) -> float:
    return float((p["samples"] or 4096) * p["replicas"] * p["layers"])


_NUMERICS = "attnlimits.numerics."
# Verbs of the command, as the routes of a model name them.
_ROUTED = {"threshold": "last layer", "evolve": "evolve"}
# Of the command, and what changes no number of a point.
_NO_PARAMETERS = ("verb", "run", "json", "quiet", "plot", "workers", "dask")
# Flags that a chart depends on.
_SHAPE = (
    *("layers", "tokens", "rank", "activation", "untied", "heads", "output", "noise"),
    *("blocks", "mask", "token_covariance"),
)


def _threshold_modules(p: Parameters) -> tuple[str, ...]:
    if p["link"] is not None:
        return ("thresholds.link.choice",)
    closed = not p["untied"] or p["rank"] == 1
    if p["layers"] == 1 and closed and p["noise"] == "0":
        return ("thresholds.heads",)
    return ("thresholds.last_layer" if p["layer"] in (None, p["layers"]) else "thresholds.first_layer",)


def _evolve_modules(p: Parameters) -> tuple[str, ...]:
    # Thresholds of links give the onsets, and their exact forms.
    return ("fixed_point.heads",) if p["link"] is None else ("fixed_point.link_limit", "thresholds.link.choice")


def _threshold_choosers(p: Parameters) -> tuple[str, ...]:
    return ("thresholds.choice",) if p["link"] is None else ()


def _no_choosers(p: Parameters) -> tuple[str, ...]:
    del p
    return ()


def _link(p: Parameters) -> Request:
    """What the derivation of the link is asked for; its digest is also that of the sources that derive it."""
    return Request(p["link"], noise=str(p["noise"]), reduced=str(p["label_noise"]) == "0")


@dataclass(frozen=True)
class Verb:
    """A verb of the command: its parameters are the flags, its record is what `--json` prints.

    Parameters
    ----------
    name : str
        The verb.
    required : tuple of str
        Flags without a default.
    cost_of : callable
        Relative cost from all parameters.
    modules_of, choosers_of : callable
        Names, within the numerics, of the modules that compute the number and of those that choose them, from all
        parameters.
    """

    name: str
    required: tuple[str, ...]
    cost_of: Callable[[Parameters], float]
    modules_of: Callable[[Parameters], tuple[str, ...]]
    choosers_of: Callable[[Parameters], tuple[str, ...]] = _no_choosers

    def canonical(self, parameters: Parameters) -> dict[str, object]:
        """Return every flag of the verb with its value as the command reads it.

        Raises
        ------
        ValueError
            A flag that the verb does not have, a missing one, or a value that it cannot read.
        """
        self._check_names(parameters)
        found = dict(self._defaults())
        for name, value in parameters.items():
            flag = _flag(name, value)
            if flag is not None:
                found[name] = read = _read(self.name, self.required, name, flag)
                if isinstance(read, float) and not math.isfinite(read):
                    raise ValueError(f"task {self.name}: {name} must be finite, got {value!r}")
        return found

    def identity(self, parameters: Parameters) -> str:
        """Identity of the route: sources of the numerics, and the generated kernel or the derivation of the link.

        Raises
        ------
        KernelNotFoundError
            There are no sources.
        """
        modules, choosers = (
            tuple(_NUMERICS + name for name in names(parameters)) for names in (self.modules_of, self.choosers_of)
        )
        if parameters["link"] is not None:
            return route_identity(modules, _link(parameters).digest, choosers=choosers)
        kernels = kernel_modules(str(parameters["activation"]), int(parameters["tokens"]))
        shape = tuple((name, _hashable(parameters[name])) for name in _SHAPE)
        formulas = derivation() if _on_chart(self.name, shape) else ""
        return route_identity(modules + kernels, formulas, choosers=choosers)

    def cost(self, parameters: Parameters) -> float:
        """Rough relative cost."""
        try:
            return self.cost_of(parameters)
        except (ArithmeticError, TypeError):  # out of range: the point fails at once, and says why
            return 0.0

    def command(self, parameters: Parameters) -> str:
        """Return the command line without the flags at their defaults."""
        defaults = self._defaults()
        told = {k: v for k, v in parameters.items() if k in self.required or v != defaults[k]}
        return " ".join(["attnlimits", self.name, *(shlex.quote(flag) for flag in _flags(told)), "--json"])

    def run(self, parameters: Parameters) -> dict[str, object]:
        """Run the verb on one thread, silently.

        Raises
        ------
        ValueError, ArithmeticError, RuntimeError
            Whatever the verb refuses or fails with.
        """
        args = self._parsed(parameters, "--workers=1")
        with contextlib.redirect_stderr(io.StringIO()):  # the sweep has the one progress bar
            record, _, ok = args.run(args)
        # A sweep keeps versions, model and settings itself; of the iterates only their number.
        left_out = ("versions", "history", "origin")
        converged = bool(record.get("converged", True)) and ok
        return {k: v for k, v in record.items() if k not in left_out} | {"converged": converged}

    def _defaults(self) -> dict[str, object]:
        return _defaults(self.name, self.required)

    def _parsed(self, parameters: Parameters, *more: str) -> argparse.Namespace:
        self._check_names(parameters)
        return _parse([self.name, *_flags(parameters), *more])

    def _check_names(self, parameters: Parameters) -> None:
        known = self._defaults()
        for name in parameters:
            if name == "workers":
                raise ValueError(
                    "workers is no parameter of a point, each has one thread; --workers of the sweep sets how many "
                    "points are computed at a time"
                )
            if name not in known:
                raise ValueError(f"task {self.name} has no parameter {name!r}; it has {', '.join(sorted(known))}")
        for name in self.required:
            if name not in parameters:
                raise ValueError(f"task {self.name} needs the parameter {name!r}, fixed or as an axis")


@cache
def _on_chart(verb: str, shape: tuple[tuple[str, object], ...]) -> bool:
    """Whether the posterior of a network of this shape is sampled on a chart, which is derived."""
    try:
        model = network_of(argparse.Namespace(**dict(shape), skip=1.0, beta=1.0), verb)
    except ValueError:  # the point fails at once, and says why
        return False
    return preferred(_ROUTED[verb], model) in (CHART, CHART_OPERATOR)


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _flags(parameters: Parameters) -> list[str]:
    """Flags of a command line."""
    return [flag for name, value in parameters.items() if (flag := _flag(name, value)) is not None]


def _flag(name: str, value: object) -> str | None:
    """One flag of a command line, None for one that is left out; floats keep all digits."""
    flag = "--" + name.replace("_", "-")
    if value is True:
        return flag
    if value is None or value is False:
        return None
    return f"{flag}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _parse(words: list[str]) -> argparse.Namespace:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return _command_line().parse_args(words)
    except SystemExit:
        sentence = said.getvalue().partition("error: ")[2].rpartition(" (see ")[0]
        raise ValueError(f"task {words[0]}: {sentence}") from None


@cache
def _command_line() -> argparse.ArgumentParser:
    return command_line({"tasks": (threshold.add, evolve.add)})[0]


@lru_cache
def _defaults(verb: str, required: tuple[str, ...]) -> dict[str, object]:
    """Parameters of a verb in the order of their names."""
    found = vars(_parse([verb, *(f"--{name}=0" for name in required)]))
    return {k: _plain(found[k]) for k in sorted(found) if k not in _NO_PARAMETERS}


@lru_cache(maxsize=4096)
def _read(verb: str, required: tuple[str, ...], name: str, flag: str) -> object:
    """Value of one flag as the command reads it: no flag of a verb changes how another one is read."""
    needed = [f"--{other}=0" for other in required if other != name]
    return _plain(vars(_parse([verb, *needed, flag]))[name])


THRESHOLD = Verb("threshold", (), _threshold_cost, _threshold_modules, _threshold_choosers)
EVOLVE = Verb("evolve", ("alpha",), _evolve_cost, _evolve_modules)
