"""What the package of a link is called, and what it says of its arguments and its domain."""

import hashlib
import re

import sympy as sp

from ..architecture import Architecture
from ..emit.ir import canonical
from ..mixing import activate_score
from ..symbols import ARGUMENTS

__all__ = ["constants_of", "domain_of", "equations_of", "meanings_of", "package_name", "title_of"]

_ROLES = {"h": "indices", "k": "key indices", "q": "query indices"}


def _dummy_activation(model: Architecture) -> sp.Expr | None:
    """Return the model's own activation of a placeholder, None for softmax and linear."""
    return activate_score(model, sp.Symbol("score", real=True)) if callable(model.activation) else None


def constants_of(model: Architecture) -> tuple[sp.Symbol, ...]:
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


def title_of(model: Architecture) -> str:
    """Return the title of the package of a model."""
    kind = "Tied" if model.tied else "Untied"
    heads = "" if model.heads == 1 else f", H = {model.heads}"
    observed = " to B_L" if model.output == "sequence" else ""
    ranks = model.rank_vector
    rank = f"ranks {ranks}" if len(set(ranks)) > 1 else f"rank {ranks[0]}"
    sizes = f"L = {model.layers}, M = {model.tokens}{heads}, {rank}"
    return f"{kind} {model.activation_name} attention{observed}, {sizes}, its link and Jacobian"


def equations_of(model: Architecture) -> tuple[int, ...]:
    """Return the numbers of the equations that a link is made of."""
    numbers = [5, 6, 7] if model.output == "last" else [5, 25, 26]
    numbers += [] if model.tied else [19, 20, 21, 22, 23, 24]
    return tuple(numbers + ([] if model.heads == 1 else [31, 32, 43, 44, 45]))


def meanings_of(model: Architecture, constants: tuple[sp.Symbol, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return name, domain and meaning of every argument of the kernels."""
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


def domain_of(model: Architecture, constants: tuple[sp.Symbol, ...]) -> str:
    """Return where the kernels are defined and accurate."""
    positive = [f"{symbol.name} > 0" for symbol in constants if symbol.is_positive]
    fixed = [f"{name} = {value}" for name, value in (("c", model.skip), ("beta", model.beta)) if value.is_number]
    if model.activation == "softmax":
        # A derivative grows by at most h^2 per layer, and the outputs are bounded.
        rest = f"; float64 for entries of h up to 1e{140 // model.layers}"
    else:
        rest = "; where a number exceeds float64, numpy64 and numba64 raise OverflowError"
    return ", ".join([*positive, *fixed, "all other arguments real"]) + rest
