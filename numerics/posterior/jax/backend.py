"""JAX where it is installed: its namespaces, float64 for the length of a call, a device by name, kernels run on it."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

__all__ = ["JaxUnavailable", "device_of", "double_precision", "jax", "jnp", "on_jax", "require_jax"]

# Any: the package is the same to a type checker whether jax is there or not.
jax: Any = None
jnp: Any = None
_WHY_NOT = ""
try:
    jax = importlib.import_module("jax")
    jnp = importlib.import_module("jax.numpy")
except ImportError as error:
    jax, _WHY_NOT = None, str(error)


class JaxUnavailable(ImportError):
    """JAX is an extra and is not installed here."""


def require_jax() -> None:
    """Raise JaxUnavailable, with what to install, where jax cannot be imported."""
    if jax is None:
        raise JaxUnavailable(
            f"denoise_jax needs jax >= 0.5, which cannot be imported ({_WHY_NOT}): pip install 'attnlimits[gpu]', "
            "with the build of jax for your GPU (jax[cuda12], for instance), or use numerics.posterior.denoiser.denoise"
        )


@contextmanager
def double_precision(device: object) -> Iterator[None]:
    """Let arrays be float64 and on `device` inside the block; jax's global settings stay as they are."""
    # Releases before 0.8 have the context manager among the experiments.
    enable = getattr(jax, "enable_x64", None)
    if not callable(enable):
        enable = importlib.import_module("jax.experimental").enable_x64
    with enable(True), jax.default_device(device):
        yield


def device_of(name: str | None) -> Any:
    """First device of a platform ("cpu", "gpu", "cuda", ..), jax's own first choice for None.

    Raises
    ------
    ValueError
        No such device; the message lists the platforms there are.
    """
    if name is None:
        return jax.devices()[0]
    try:
        return jax.devices(str(name))[0]
    except RuntimeError:
        have = sorted({str(device.platform) for device in (*jax.devices(), *jax.devices("cpu"))})
        raise ValueError(
            f"device must be None or a platform of jax with a device here ({', '.join(have)}), got {name!r}"
        ) from None


def on_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """Same code on jax arrays: a copy of a function of numpy's element-wise operations, with jax.numpy for its `np`.

    The generated kernels of `numpy64` are such functions, straight-line, under a decorator that checks their output
    (`__wrapped__` is the function itself). So no formula is printed twice.
    """
    code = getattr(function, "__wrapped__", function)
    return FunctionType(code.__code__, {**code.__globals__, "np": jnp}, code.__name__, code.__defaults__)
