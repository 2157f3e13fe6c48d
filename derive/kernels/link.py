"""Kernels of the link and its Jacobian, of any architecture, from straight-line derivations.

What is proved before anything is printed (`prove`): layer by layer and exactly, that the scores, the attention
matrices and B_l of the straight-line program are those of `derive.mixing`, as functions of B_{l-1} and of the
indices of the layer; with B_0 = I that is the whole link by induction, at any size, and no tree is ever expanded.
Besides, the printed functions are run: the link against `derive.mixing` with the numbers put in, and the Jacobian
against central differences of the link.  That second check evaluates exponentials of rationals, which no exact
arithmetic holds, so it is a comparison at 60 digits.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import Any

import sympy as sp
from mpmath.ctx_mp import MPContext

from ..activation import SCORE, printed_activation
from ..architecture import Architecture
from ..emit.ir import canonical, lower
from ..emit.printers import MpmathPrinter, NumbaPrinter, NumpyPrinter
from ..emit.render import run_mp
from ..mixing import activate_score, attention_matrices, mix, score_matrices
from ..nodes import SUPPORTED, printable
from ..primitives import (
    Expit,
    Largest,
    LogExpit,
    Magnitude,
    Smallest,
    elementary,
    softmax_rows,
    stable,
)
from ..proof import ProofError, prove_equal
from ..straightline import Stage, StraightLine, straight_jacobian, straight_link
from ..symbols import ARGUMENTS
from .kernel import Kernel, KernelPackage

__all__ = ["link_package", "package_name", "prove"]

_DIGITS = 60
# Sizes of h, and whether some are negative, at which printed functions are compared; the first is for those activations
# that are defined everywhere, the others for those that need positive, small or large scores.
_PLACES = ((1, True), (1, False), (sp.Rational(1, 8), False), (12, False))
_ROLES = {"h": "indices", "k": "key indices", "q": "query indices"}


def _dummy_activation(model: Architecture) -> sp.Expr | None:
    """Return the model's own activation of a placeholder, None for softmax and linear."""
    return activate_score(model, sp.Symbol("score", real=True)) if callable(model.activation) else None


def _constants(model: Architecture) -> tuple[sp.Symbol, ...]:
    """Return the symbols of skip, beta and the activation, then the readout weights."""
    found: list[sp.Symbol] = []
    for expr in (model.skip, model.beta, _dummy_activation(model)):
        if expr is not None:
            names = sorted(expr.free_symbols - {sp.Symbol("score", real=True)}, key=lambda symbol: symbol.name)
            found += [symbol for symbol in names if symbol not in found]
    if model.layers == 1 and model.output == "last":
        # No tokens leave the only layer, so nothing depends on the skip connection.
        found = [s for s in found if s not in model.skip.free_symbols or s in model.beta.free_symbols]
    return (*found, *(o for matrix in model.readouts for o in matrix))


def package_name(model: Architecture) -> str:
    """Return the name of the link package of a model; models with different links have different names."""
    ranks = model.rank_vector
    name = model.name.replace("attention_", "link_", 1)
    name += f"_l{model.layers}_r" + ("x".join(map(str, ranks)) if len(set(ranks)) > 1 else str(ranks[0]))
    default = Architecture(model.layers, model.tokens)
    for what, value, usual in (("c", model.skip, default.skip), ("beta", model.beta, default.beta)):
        if value != usual:
            plain = isinstance(value, sp.Rational) or isinstance(value, sp.Symbol)
            name += f"_{what}_{str(value).replace('/', 'o') if plain else _short(value)}"
    activation = _dummy_activation(model)
    # The name of a function does not say what it computes.
    name += "" if activation is None else f"_{_short(activation)}"
    return re.sub(r"\W", "_", name)


def _short(expr: sp.Expr) -> str:
    return hashlib.sha256(canonical(expr).encode()).hexdigest()[:8]


def _title(model: Architecture) -> str:
    kind = "Tied" if model.tied else "Untied"
    heads = "" if model.heads == 1 else f", H = {model.heads}"
    observed = " to B_L" if model.output == "sequence" else ""
    ranks = model.rank_vector
    rank = f"ranks {ranks}" if len(set(ranks)) > 1 else f"rank {ranks[0]}"
    sizes = f"L = {model.layers}, M = {model.tokens}{heads}, {rank}"
    return f"{kind} {model.activation_name} attention{observed}, {sizes}, its link and Jacobian"


def _equations(model: Architecture) -> tuple[int, ...]:
    numbers = [5, 6, 7] if model.output == "last" else [5, 25, 26]
    numbers += [] if model.tied else [19, 20, 21, 22, 23, 24]
    return tuple(numbers + ([] if model.heads == 1 else [31, 32, 43, 44, 45]))


def _meanings(model: Architecture, constants: tuple[sp.Symbol, ...]) -> tuple[tuple[str, str, str], ...]:
    lines: list[tuple[str, str, str]] = []
    for block in model.index_blocks:
        where = f"layer {block.layer}" + ("" if model.heads == 1 else f", head {block.head}, block {block.block}")
        shape = f"{block.rank} x {model.tokens}, row by row"
        meaning = f"{_ROLES[block.role]} of {where} ({shape})"
        lines += [(symbol.name, "real", meaning) for symbol in block.symbols(model.tokens, model.heads)]
    for number, matrix in enumerate(model.readouts, start=1):
        shape = f"{model.heads} x {model.heads}, row by row"
        lines += [(symbol.name, "real", f"readout weights o of layer {number} ({shape})") for symbol in matrix]
    known = {line[0] for line in lines}
    for symbol in constants:
        if symbol.name not in known and symbol.name not in ARGUMENTS:
            domain = "> 0" if symbol.is_positive else "real" if symbol.is_real else "number"
            lines.append((symbol.name, domain, "constant of the model"))
    return tuple(lines)


def _domain(model: Architecture, constants: tuple[sp.Symbol, ...]) -> str:
    positive = [f"{symbol.name} > 0" for symbol in constants if symbol.is_positive]
    fixed = [f"{name} = {value}" for name, value in (("c", model.skip), ("beta", model.beta)) if value.is_number]
    if model.activation == "softmax":
        # A derivative grows by at most h^2 per layer, and the outputs are bounded.
        rest = f"; float64 for entries of h up to 1e{140 // model.layers}"
    else:
        rest = "; where a number exceeds float64, numpy64 and numba64 raise OverflowError"
    return ", ".join([*positive, *fixed, "all other arguments real"]) + rest


def _kernels(model: Architecture, link: StraightLine, jacobian: StraightLine) -> tuple[Kernel, ...]:
    constants = _constants(model)
    arguments = (*link.variables, *constants)
    meanings, equations = _meanings(model, constants), _equations(model)
    rows, columns = link.outputs.shape
    names = [f"y_{i + 1}_{j + 1}" for i in range(rows) for j in range(columns)]
    domain = _domain(model, constants)
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
        title=_title(model),
        activation=model.activation_name,
        tokens=model.tokens,
        source="attnlimits.derive.kernels.link",
        kernels=kernels,
        prove=lambda: prove(model, kernels),
        domain=_domain(model, _constants(model)),
        model=model,
        seconds=time.perf_counter() - start,
    )


def _expander(line: StraightLine, stop: set[sp.Expr]) -> Callable[[sp.Expr], sp.Expr]:
    """Return a function that writes out the names of a body, down to those in ``stop``."""
    body = {name: value for name, value in line.body if name not in stop}
    known: dict[sp.Symbol, sp.Expr] = {}

    def expand(value: sp.Expr) -> sp.Expr:
        for name in value.free_symbols & body.keys():
            if name not in known:
                known[name] = expand(body[name])
        return value.xreplace(known)

    return expand


def _prove_polynomial(left: sp.Matrix, right: sp.Matrix, what: str) -> None:
    for number, (lhs, rhs) in enumerate(zip(left, right, strict=True)):
        rest = sp.expand(lhs - rhs)
        if rest != 0:
            raise ProofError(f"{what}: entry {number} leaves {rest}")


def _prove_row(row: list[sp.Expr], scores: list[sp.Expr], proved: set[tuple[sp.Expr, ...]], what: str) -> None:
    """Prove a stable softmax row in the symbols of its scores and of the largest of them."""
    names = [sp.Symbol(f"score{n}", real=True) if z.free_symbols else z for n, z in enumerate(scores, start=1)]
    rename = {z: name for z, name in zip(scores, names, strict=True) if z.free_symbols}
    made = [entry.xreplace(rename) for entry in row]
    if tuple(made) in proved:
        return
    wanted = softmax_rows(sp.Matrix([names]))
    if len(scores) == 2:
        # The difference of the two scores; the other name is zero.
        _prove_by_sign(sp.Matrix([made]), wanted, names[0], what)
    else:
        # Whatever is subtracted from all scores cancels, the largest of them included.
        shift = sp.Symbol("shift", real=True)
        prove_equal(sp.Matrix([made]).xreplace({Largest(*names): shift}), wanted, what)
    proved.add(tuple(made))


def _prove_by_sign(made: sp.Matrix, wanted: sp.Matrix, x: sp.Symbol, what: str) -> None:
    """Prove an identity with |x|, min(x, 0) and min(-x, 0) on its left for x >= 0, then for x <= 0."""
    zero = sp.S.Zero
    for cases in (
        {Magnitude(x): x, Smallest(x, 0): zero, Smallest(-x, 0): -x},
        {Magnitude(x): -x, Smallest(x, 0): x, Smallest(-x, 0): zero},
    ):
        prove_equal(made.xreplace(cases), wanted, what)


def _prove_entries(model: Architecture, row: list[sp.Expr], scores: list[sp.Expr], what: str) -> None:
    """Prove an activation that acts entry by entry: its logistic form, the stable nodes, and that these are printed."""
    if model.activation == "linear":
        prove_equal(sp.Matrix(row), sp.Matrix(scores), what)
        return
    form, value, _ = printed_activation(model)
    prove_equal(form, activate_score(model, SCORE), what)
    x = sp.Symbol("x", real=True)
    # Logarithms through their exponentials, which reduce to rational functions of exp(x).
    nodes, logs = sp.Matrix([Expit(x), Expit(-x)]), sp.Matrix([LogExpit(x), LogExpit(-x)])
    made = sp.Matrix([*stable(nodes), *stable(logs).applyfunc(sp.exp)])
    _prove_by_sign(made, elementary(sp.Matrix([*nodes, *nodes])), x, what)
    if value != stable(printable(form)) or row != [value.xreplace({SCORE: score}) for score in scores]:
        raise ProofError(f"{what}: the program holds another expression than its stable form")


def _prove_stage(model: Architecture, line: StraightLine, stage: Stage, indices: sp.Matrix, proved: set[Any]) -> None:
    before = {entry for entry in stage.before if isinstance(entry, sp.Symbol)}
    what = f"{package_name(model)}, layer {stage.layer}"
    scores = [model.beta * z for z in score_matrices(model, stage.layer, stage.before, indices)]
    made = [z.applyfunc(_expander(line, before)) for z in stage.scores]
    for value, wanted in zip(made, scores, strict=True):
        if model.activation == "softmax" and model.tokens == 2:
            wanted = sp.Matrix([[row[0] - row[1], 0] for row in wanted.tolist()])
        _prove_polynomial(value, wanted, f"{what}: scores")

    known = {z for matrix in stage.scores for z in matrix if isinstance(z, sp.Symbol)}
    rows = _expander(line, known)
    for number, (matrix, z) in enumerate(zip(stage.attentions, stage.scores, strict=True), start=1):
        for i in range(model.tokens):
            row, score = [rows(entry) for entry in matrix[i, :]], list(z[i, :])
            if model.activation == "softmax":
                # Tied scores z_ij = z_ji are one symbol, but those of one row are distinct.
                _prove_row(row, score, proved, f"{what}: attention of head {number}, row {i + 1}")
            else:
                _prove_entries(model, row, score, f"{what}: activation")

    if stage.after is not None:
        stop = before | {s for matrix in stage.attentions for s in matrix if isinstance(s, sp.Symbol)}
        readout = model.readouts[stage.layer - 1] if model.heads > 1 else None
        wanted = mix(model, stage.before, stage.attentions, readout)
        _prove_polynomial(stage.after.applyfunc(_expander(line, stop)), wanted, f"{what}: mixing")


def prove(model: Architecture, kernels: tuple[Kernel, ...]) -> None:
    """Prove the link kernel exactly, layer by layer, and check both printed kernels at 60 digits.

    Parameters
    ----------
    model : Architecture
    kernels : tuple of Kernel
        ``link`` and ``jacobian`` as `link_package` makes them.

    Raises
    ------
    ProofError
        If a layer of the straight-line program is not that of `derive.mixing`, a kernel holds another program, or
        a printed number differs.

    References
    ----------
    troiani2025, (5)-(7), (19)-(26), (31)-(32), (43)-(45).
    """
    line = straight_link(model)
    if (line.body, tuple(line.outputs)) != (kernels[0].body, tuple(value for _, value in kernels[0].outputs)):
        raise ProofError(f"{package_name(model)}: the kernel `link` is not the straight-line program of the model")
    proved: set[Any] = set()
    for stage, indices in zip(line.stages, model.index_matrices(), strict=True):
        _prove_stage(model, line, stage, indices, proved)
    _compare(model, kernels)


def _at(model: Architecture, values: dict[sp.Symbol, sp.Expr]) -> sp.Matrix:
    """Evaluate the link of `derive.mixing` with numbers put in, layer by layer, so that no tree grows."""

    def number(matrix: sp.Matrix) -> sp.Matrix:
        return elementary(matrix).xreplace(values).evalf(_DIGITS + 10)

    mixing = sp.eye(model.heads * model.tokens)
    attentions: tuple[sp.Matrix, ...] = ()
    for layer, indices in enumerate(model.index_matrices(), start=1):
        attentions = tuple(number(s) for s in attention_matrices(model, layer, mixing, indices.subs(values)))
        if layer < model.layers or model.output == "sequence":
            mixing = number(mix(model, mixing, attentions, model.readouts[layer - 1] if model.heads > 1 else None))
    return mixing if model.output == "sequence" else sp.Matrix.vstack(*attentions)


def _compare(model: Architecture, kernels: tuple[Kernel, ...]) -> None:
    printed = run_mp([lower(kernel) for kernel in kernels])
    ctx = MPContext()
    ctx.dps = _DIGITS
    arguments = kernels[0].arguments
    inputs = model.indices * model.tokens
    for scale, signed in _PLACES:
        # Any generic point: multiples of 1/97 that repeat in no row.
        values = [sp.Rational((37 * n * n + 11 * n + 5) % 97 + 8, 97) for n in range(len(arguments))]
        values = [scale * v if n < inputs else v for n, v in enumerate(values)]
        values = [-v if signed and n % 3 == 1 and n < inputs else v for n, v in enumerate(values)]
        point = [ctx.mpf(int(v.p)) / int(v.q) for v in values]
        try:
            made = printed["link"](ctx, *point)
            break
        except ValueError:
            # Outside the domain of the activation: the next place, or the error of the last.
            if (scale, signed) == _PLACES[-1]:
                raise
    wanted = [ctx.mpf(str(value)) for value in _at(model, dict(zip(arguments, values, strict=True)))]
    _agree(ctx, made, wanted, _DIGITS - 8, f"{package_name(model)}: link")

    # Central differences: the step squared, 1e-36, times third derivatives of order one to a thousand.
    step = ctx.mpf(10) ** -18
    columns = []
    for n in range(inputs):
        up, down = ([*point[:n], point[n] + sign * step, *point[n + 1 :]] for sign in (1, -1))
        pairs = zip(printed["link"](ctx, *up), printed["link"](ctx, *down), strict=True)
        columns.append([(a - b) / (2 * step) for a, b in pairs])
    wanted = [columns[n][k] for k in range(len(made)) for n in range(inputs)]
    _agree(ctx, printed["jacobian"](ctx, *point), wanted, 28, f"{package_name(model)}: jacobian")


def _agree(ctx: MPContext, made: Any, wanted: Any, digits: int, what: str) -> None:
    size = max([ctx.mpf(1), *(abs(value) for value in wanted)])
    for number, (value, reference) in enumerate(zip(made, wanted, strict=True)):
        if not abs(value - reference) < ctx.mpf(10) ** -digits * size:
            raise ProofError(f"{what}: entry {number} is {ctx.nstr(value, 30)}, expected {ctx.nstr(reference, 30)}")
