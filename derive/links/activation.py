"""Activations of the user's own as text in z, in the strict grammar of links, and whether they can be undone."""

import re

import sympy as sp

from ..architecture import ACTIVATIONS, Architecture
from ..mixing import activate_score
from .branches import split
from .exact import monotone
from .functions import ArgMax, SoftmaxEntry
from .parser import LinkError, index_symbol, parse

__all__ = ["invertible", "read_activation"]

_VARIABLE = re.compile(r"\bz\b")
# Names of entries of h, which an activation does not know.
_ENTRY = re.compile(r"\bh(_\d+)*\b")


def read_activation(text: str) -> str | sp.Lambda:
    """Return the activation of a name, or of a text in z.

    Parameters
    ----------
    text : str
        "softmax", "linear", or a function of one score z such as "tanh(z)".

    Raises
    ------
    ValueError
        It is neither; the message names the place.

    Examples
    --------
    >>> read_activation("z**3 + z")
    Lambda(z, z**3 + z)
    """
    if text in ACTIVATIONS:
        return text
    if not _VARIABLE.search(text) or _ENTRY.search(text):
        raise ValueError(
            f"activation must be {', '.join(ACTIVATIONS)} or a function of one score z such as tanh(z), got {text!r}"
        )
    try:
        outputs = parse(_VARIABLE.sub("h", text))
    except LinkError as error:
        raise ValueError(f"activation {text!r}, with h for z: {error}") from None
    if len(outputs) != 1 or outputs[0].has(ArgMax, SoftmaxEntry):
        raise ValueError(f"activation must be one number of one score z, got {text!r}")
    z = sp.Symbol("z", real=True)
    return sp.Lambda(z, outputs[0].xreplace({index_symbol(1, 1): z}))


def invertible(model: Architecture) -> bool:
    """Whether the activation of a model, a function of one score, is provably strictly monotone.

    Then an attention matrix says what its scores say.
    """
    z = index_symbol(1, 1)
    value = activate_score(model, z)
    return monotone(value, z) in (1, -1) and all(region.outputs[0].free_symbols for region in split([value]))
