"""The command and the line of Python that compute a number again."""

import shlex
from collections.abc import Mapping

from ..model.described import Model
from ..model.link import Link
from ..model.network import Network

__all__ = ["command", "flags", "python"]

_USUAL = Network().parameters
# Settings of the functions whose flags have another name.
_FLAGS = {"rng": "seed"}
# Parameters that no flag has.
_NO_FLAG = "readouts"


def flags(model: Model) -> list[str] | None:
    """Words of the command line that describe a model; None for one that no flags describe."""
    if isinstance(model, Link):
        sized = model.tokens is not None or model.indices is not None
        noise = [] if model.noise == "0" else ["--noise", model.noise]
        return None if sized else ["--link", model.text, *noise]
    parameters = model.parameters
    if _NO_FLAG in parameters:
        return None
    words: list[str] = []
    for name, value in parameters.items():
        if name == "layers" or value != _USUAL.get(name, False):
            words += _words(name, value)
    return words


def command(verb: str, model: Model, settings: Mapping[str, object]) -> str:
    """Return the command line of a verb; empty where no flags describe the model."""
    described = flags(model)
    if described is None:
        return ""
    words = ["attnlimits", *verb.split(), *described]
    for name, value in settings.items():
        if value is not None:
            words += _words(_FLAGS.get(name, name).replace("_", "-"), value)
    return " ".join(map(shlex.quote, words))


def python(model: Model) -> str:
    """Return the constructor of a model in Python."""
    if isinstance(model, Link):
        sizes = [f"{name}={getattr(model, name)}" for name in ("tokens", "indices") if getattr(model, name) is not None]
        noise = [] if model.noise == "0" else [f"noise={model.noise!r}"]
        return f"al.Link({', '.join([repr(model.text), *noise, *sizes])})"
    words = [f"layers={model.layers}"]
    for name, value in model.parameters.items():
        if name != "layers" and value != _USUAL.get(name, False):
            words.append("tied=False" if name == "untied" else f"{name}={value!r}")
    return f"al.Network({', '.join(words)})"


def _words(name: str, value: object) -> list[str]:
    if value is True:
        return [f"--{name}"]
    if value is False:
        return []
    return [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple | list) else _number(value)]


def _number(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
