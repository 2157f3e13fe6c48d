"""Kernels of the link and its Jacobian, of any architecture, from straight-line derivations."""

import time

from ..activation import printed_activation
from ..architecture import Architecture
from ..emit.printers import MpmathPrinter, NumbaPrinter, NumpyPrinter
from ..nodes import SUPPORTED
from ..straightline import StraightLine, straight_jacobian, straight_link
from .kernel import Kernel, KernelPackage
from .link_names import constants_of, domain_of, equations_of, meanings_of, package_name, title_of
from .link_proof import prove

__all__ = ["link_package"]


def _kernels(model: Architecture, link: StraightLine, jacobian: StraightLine) -> tuple[Kernel, ...]:
    constants = constants_of(model)
    arguments = (*link.variables, *constants)
    meanings, equations = meanings_of(model, constants), equations_of(model)
    rows, columns = link.outputs.shape
    names = [f"y_{i + 1}_{j + 1}" for i in range(rows) for j in range(columns)]
    domain = domain_of(model, constants)
    formula = "B_L" if model.output == "sequence" else "sigma(beta K^T Q) of the last layer"
    heads = "" if model.heads == 1 or model.output == "sequence" else ", heads one below the other"
    inputs = len(link.variables)
    towers = callable(model.activation)
    return (
        Kernel(
            name="link",
            arguments=arguments,
            outputs=tuple(zip(names, link.outputs, strict=True)),
            summary=f"Output y = g(h): {formula}.",
            notes=(f"The {rows} x {columns} entries of y row by row{heads}.",),
            equations=equations,
            domain=domain,
            body=link.body,
            meanings=meanings,
            refuses=True,
            towers=towers,
        ),
        Kernel(
            name="jacobian",
            arguments=arguments,
            outputs=tuple(
                zip([f"{y}_by_{h.name}" for y in names for h in link.variables], jacobian.outputs, strict=True)
            ),
            summary="Jacobian dy/dh of `link`.",
            notes=(f"The {len(names)} x {inputs} derivatives: all those of the first entry of y, then of the next.",),
            equations=equations,
            domain=domain,
            body=jacobian.body,
            meanings=meanings,
            refuses=True,
            towers=towers,
        ),
    )


def _check_printable(model: Architecture) -> None:
    if not callable(model.activation):
        return
    try:
        for value in printed_activation(model)[1:]:
            for printer in (NumpyPrinter(), NumbaPrinter(hot=False), MpmathPrinter()):
                printer.text(value)
    except TypeError as error:
        raise ValueError(
            f"the activation {model.activation_name} or its derivative cannot be printed: {error}; it may hold "
            f"{SUPPORTED} (3)"
        ) from error


def link_package(model: Architecture) -> KernelPackage:
    """Derive the link of a model and its exact Jacobian as a package of kernels.

    Parameters
    ----------
    model : Architecture
        Any; a numeric skip or beta becomes a number of the kernels, a symbolic one an argument.

    Returns
    -------
    KernelPackage
        Kernels ``link`` and ``jacobian``.  Arguments: the entries of h in the order of `Architecture.index_blocks`,
        the symbols of skip, beta and the activation, the readout weights.

    Raises
    ------
    ValueError
        If a symbol of the model has the name of an index or of a readout weight, or the activation cannot be
        printed.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45).
    """
    start = time.perf_counter()
    _check_printable(model)
    link, jacobian = straight_link(model), straight_jacobian(model)
    kernels = _kernels(model, link, jacobian)
    return KernelPackage(
        name=package_name(model),
        title=title_of(model),
        activation=model.activation_name,
        tokens=model.tokens,
        source="attnlimits.derive.kernels.link",
        kernels=kernels,
        prove=lambda: prove(model, kernels),
        domain=domain_of(model, constants_of(model)),
        model=model,
        seconds=time.perf_counter() - start,
    )
