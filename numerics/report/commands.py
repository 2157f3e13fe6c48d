"""The command and the line of Python that compute a number again."""

import shlex
from collections.abc import Mapping

from ..model.described import Model
from ..model.flags import USUAL, flag, flags_of
from ..model.link import Link

__all__ = ["command", "python"]

# Settings of the functions whose flags have another name.
_FLAGS = {"rng": "seed"}


def _described(model: Model) -> list[str] | None:
    """Words of the command line that describe a model; None for one that no flags describe."""
    if not isinstance(model, Link):
        return flags_of(model)
    sized = model.tokens is not None or model.indices is not None
    noise = [] if model.noise == "0" else ["--noise", model.noise]
    labels = [] if model.label_noise == "0" else ["--label-noise", model.label_noise]
    return None if sized else ["--link", model.text, *noise, *labels]


def command(verb: str, model: Model, settings: Mapping[str, object]) -> str:
    """Return the command line of a verb; empty where no flags describe the model."""
    described = _described(model)
    if described is None:
        return ""
    words = ["attnlimits", *verb.split(), *described]
    for name, value in settings.items():
        if value is not None:
            words += flag(_FLAGS.get(name, name).replace("_", "-"), value)
    return shlex.join(words)


def python(model: Model) -> str:
    """Return the constructor of a model in Python."""
    if isinstance(model, Link):
        sizes = [f"{name}={getattr(model, name)}" for name in ("tokens", "indices") if getattr(model, name) is not None]
        named = (f"{name}={getattr(model, name)!r}" for name in ("noise", "label_noise") if getattr(model, name) != "0")
        return f"al.Link({', '.join([repr(model.text), *named, *sizes])})"
    if model.chain is not None:
        more = [] if model.chain.covariance is None else [f"token_covariance={model.chain.covariance}"]
        more += [f"noise={model.noise:g}"] if model.noise else []
        return f"al.Network({', '.join([repr(model.chain.text()), f'tokens={model.tokens}', *more])})"
    words = [f"layers={model.layers}"]
    for name, value in model.parameters.items():
        if name != "layers" and value != USUAL.get(name, False):
            words.append("tied=False" if name == "untied" else f"{name}={value!r}")
    return f"al.Network({', '.join(words)})"
