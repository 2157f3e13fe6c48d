"""Print the output of an architecture and its Jacobian as a module with two compiled functions on arrays."""

import hashlib

from ..architecture import Architecture
from ..kernels.link import link_package
from .chart_source import IMPORTS
from .ir import lower
from .printers import NumbaPrinter

__all__ = ["source_of_jacobian"]

_SOURCE = '''"""Output of an architecture and its Jacobian in the indices: {title}."""
# derived by attnlimits.derive.straightline; do not edit
# derivation: sha256 {hash}

import math

{imports}

DERIVATION_HASH = "{hash}"

'''
_FUNCTION = '''
@njit(cache=True, nogil=True, error_model="numpy")
def {name}(h, constants, out):
    """{summary}"""
{body}

'''


def source_of_jacobian(model: Architecture) -> str:
    """Derive, prove and print the output of a model and its Jacobian.

    Parameters
    ----------
    model : Architecture
        With symbols for skip and beta.

    Returns
    -------
    str
        Source of a module with the functions `link`, of (h, constants, out) for h of shape (P, M) and out of shape
        (outputs,), and `jacobian`, with out of shape (outputs, P M).

    Raises
    ------
    ProofError
        The Jacobian is not that of the link.
    """
    package = link_package(model)
    package.prove()
    programs = [lower(kernel) for kernel in package.kernels]
    digest = hashlib.sha256("".join(program.digest() for program in programs).encode()).hexdigest()
    size = sum(len(matrix) for matrix in model.index_matrices())
    parts = [_SOURCE.format(title=package.title, hash=digest, imports=IMPORTS)]
    for kernel, program in zip(package.kernels, programs, strict=True):
        plain, printer = program.specialise(bounded=True), NumbaPrinter(hot=False)
        body = [f"{s.name} = {_place(k, size, model.tokens)}" for k, s in enumerate(kernel.arguments)]
        body += [f"{name.name} = {printer.text(value)}" for name, value in plain.assignments]
        body += [_set(k, printer.text(value), kernel.name, size) for k, value in enumerate(plain.outputs)]
        text = "\n".join(f"    {line}" for line in body)
        parts.append(_FUNCTION.format(name=kernel.name, summary=kernel.summary, body=text))
    return "".join(parts)


def _place(number: int, size: int, tokens: int) -> str:
    """Where an argument stands: the entries of h come first, then the constants."""
    return f"h[{number // tokens}, {number % tokens}]" if number < size else f"constants[{number - size}]"


def _set(number: int, value: str, name: str, size: int) -> str:
    where = f"{number}" if name == "link" else f"{number // size}, {number % size}"
    return f"out[{where}] = {value}"
