"""Kernels of a fibre of the last layer: all readouts that share one output, and the measure on them."""

import time

import sympy as sp
from mpmath.ctx_mp import MPContext

from ..architecture import Architecture
from ..emit.ir import lower
from ..emit.render import run_mp
from ..fibres import Fibre, fibre, prove_measure, with_root
from ..mixing import activate_score, score_matrices
from ..nodes import own
from ..primitives import elementary, softmax_rows
from ..proof import ProofError
from .kernel import Kernel, KernelPackage
from .link_names import package_name

__all__ = ["fibre_package"]

_DIGITS = 40
_MEANINGS = {
    "theta": ("real", "angle of the rotation that y leaves free"),
    "n": ("real", "part of the shift that y leaves free"),
    "sign": ("+1 or -1", "reflection that y leaves free"),
    "k": ("real, not 0", "key of a pivot token, which y leaves free"),
    "u": ("real", "common shift of the queries, which y leaves free"),
    "p": ("real", "free entry of the differences of queries"),
    "C": ("see domain", "Gram matrix of the pivot tokens"),
    "X": ("real", "products of the pivot tokens with the others"),
    "T": ("real, not 0", "product of a key with a difference of queries, or with a query"),
    "y": ("see domain", "entry of the output"),
    "beta": ("> 0", "inverse temperature"),
}


def _meanings(symbols: tuple[sp.Symbol, ...]) -> tuple[tuple[str, str, str], ...]:
    def look_up(name: str) -> tuple[str, str]:
        kind = name.split("_")[0]
        return _MEANINGS.get(kind, _MEANINGS.get(kind[0], ("real", "argument")))

    return tuple((symbol.name, *look_up(symbol.name)) for symbol in symbols)


def _package_name(model: Architecture) -> str:
    # Depth does not matter: the fibre is that of the last layer's readout.
    last = Architecture(1, model.tokens, model.rank_vector[-1], model.activation, model.tied, model.skip, model.beta)
    return package_name(last).replace("link_", "fibre_", 1).replace("_l1", "", 1)


def _factored(model: Architecture, found: Fibre) -> tuple[tuple[tuple[sp.Symbol, sp.Expr], ...], sp.Matrix, sp.Expr]:
    """Return the Cholesky factor R of C entry by entry, and the readout and the log of the measure in R.

    In C itself products such as det C leave float64 long before R does.
    """
    if not model.tied:
        return (), found.readout, found.log_density
    readout, _, squares, _ = with_root(found)
    body: list[tuple[sp.Symbol, sp.Expr]] = []
    diagonal: dict[int, sp.Symbol] = {}
    for entry, square in squares.items():
        i, j = (int(number) - 1 for number in entry.name.split("_")[1:])
        known = sp.Add(*[term for term in sp.Add.make_args(square) if not term.has(_root(i, i), _root(i, j))])
        body.append((_root(i, j), sp.sqrt(entry - known) if i == j else (entry - known) / diagonal[i]))
        if i == j:
            diagonal[i] = _root(i, i)
    logs = {log for log in found.log_density.atoms(sp.log) if log.free_symbols and log.free_symbols <= squares.keys()}
    determinant = sp.Mul(*[root**2 for root in diagonal.values()])
    for log in logs:
        if sp.expand(log.args[0].xreplace(squares) - determinant) != 0:
            raise ProofError(f"{_package_name(model)}: {log} is not the logarithm of det C")
    total = 2 * sp.Add(*[sp.log(root) for root in diagonal.values()])
    return tuple(body), readout, found.log_density.xreplace(dict.fromkeys(logs, total))


def _root(i: int, j: int) -> sp.Symbol:
    """Entry of R, as `derive.fibres` names it."""
    return sp.Symbol(f"R_{i + 1}_{j + 1}", positive=True if i == j else None, real=True)


def _kernels(model: Architecture, found: Fibre) -> tuple[Kernel, ...]:
    values = [own(value) for _, value in found.data]
    used = sorted(set().union(*(value.free_symbols for value in values)), key=lambda s: s.name)
    constants = tuple(s for s in used if s not in set(found.output))
    entries = tuple(y for y in found.output if y in used)
    data = tuple(symbol for symbol, _ in found.data)
    # The measure may hold beta where the data do not show it.
    extra = found.log_density.free_symbols - {*data, *found.variables, *found.signs}
    arguments = (*data, *found.variables, *found.signs, *sorted(extra, key=lambda s: s.name))
    body, readout, log_density = _factored(model, found)
    rows = readout.rows // (1 if model.tied else 2)
    roles = ("v",) if model.tied else ("key", "query")
    names = [f"{role}_{i + 1}_{m + 1}" for role in roles for i in range(rows) for m in range(model.tokens)]
    return (
        Kernel(
            name="data",
            arguments=(*entries, *constants),
            outputs=tuple((symbol.name, value) for symbol, value in zip(data, values, strict=True)),
            summary="Products of tokens that the output fixes.",
            notes=("What `fibre` needs to know of y.",),
            equations=(6, 164),
            domain="y in the range of the link",
            meanings=_meanings((*entries, *constants)),
            total=False,
        ),
        Kernel(
            name="fibre",
            arguments=arguments,
            outputs=(
                *((name, own(value)) for name, value in zip(names, readout, strict=True)),
                ("log_density", own(log_density)),
            ),
            summary="A readout that gives the output, and the log of the measure on all of them.",
            notes=(
                "Z_out(y) = sum over the signs, integral over the free variables of exp(log_density) p(readout),",
                "with p the density of the readout; Z_out is the density of y's coordinates (`derive.fibres`).",
            ),
            equations=(163, 164, 165),
            domain="data in the range of the link: C positive definite, T of the rank of the layer",
            meanings=_meanings(arguments),
            total=False,
            body=body,
        ),
    )


def fibre_package(model: Architecture) -> KernelPackage:
    """Derive the fibre of the last layer of a model as a package of kernels.

    Parameters
    ----------
    model : Architecture
        As for `derive.fibres.fibre`, softmax or linear.

    Returns
    -------
    KernelPackage
        Kernels ``data`` (entries of y to the products of tokens they fix) and ``fibre`` (these, the free variables and
        the signs to one readout and the log of the measure).

    Raises
    ------
    ValueError
        As `derive.fibres.fibre`.

    References
    ----------
    troiani2025, (163)-(165).
    """
    start = time.perf_counter()
    found = fibre(model)
    kernels = _kernels(model, found)
    kind = "Tied" if model.tied else "Untied"
    return KernelPackage(
        name=_package_name(model),
        title=f"{kind} {model.activation_name} attention, M = {model.tokens}, rank {model.rank_vector[-1]}, fibre of y",
        activation=model.activation_name,
        tokens=model.tokens,
        source="attnlimits.derive.kernels.fibre",
        kernels=kernels,
        prove=lambda: _prove(model, found, kernels),
        domain="beta > 0, y in the range of the link; each function states its own",
        seconds=time.perf_counter() - start,
    )


def _prove(model: Architecture, found: Fibre, kernels: tuple[Kernel, ...]) -> None:
    """Prove the measure exactly where that takes seconds, and put the printed readouts through the link."""
    if model.rank_vector[-1] * model.tokens <= 6:
        prove_measure(model)
    printed = run_mp([lower(kernel) for kernel in kernels])
    ctx = MPContext()
    ctx.dps = _DIGITS
    last = Architecture(1, model.tokens, model.rank_vector[-1], model.activation, model.tied, beta=model.beta)
    indices = last.index_matrices()[0]
    beta = {model.beta: sp.Rational(13, 10)} if model.beta.free_symbols else {}

    def output(values: list[sp.Expr]) -> sp.Matrix:
        at = dict(zip(indices, values, strict=True)) | beta
        scores = model.beta * score_matrices(last, 1, sp.eye(model.tokens), indices)[0]
        if model.activation == "softmax":
            y = softmax_rows(scores)
        else:
            y = scores.applyfunc(lambda score: activate_score(last, score))
        return elementary(y).xreplace(at).evalf(_DIGITS)

    seed = [sp.Rational((29 * n * n + 7 * n + 3) % 53 - 26, 31) for n in range(len(indices))]
    y = output(seed)
    known = dict(zip(found.output, y, strict=True)) | beta
    data = printed["data"](ctx, *(ctx.mpf(str(known[s])) for s in kernels[0].arguments))
    free = {s: ctx.mpf(3 + 2 * n) / 7 for n, s in enumerate(found.variables)} | dict.fromkeys(found.signs, ctx.mpf(-1))
    free |= dict(zip((s for s, _ in found.data), data, strict=True))
    free |= {s: ctx.mpf(str(value.evalf(_DIGITS))) for s, value in beta.items()}
    made = printed["fibre"](ctx, *(free[s] for s in kernels[1].arguments))
    # The same measure as that proved above, which is written in C.
    density = elementary(own(found.log_density)).xreplace({s: sp.Float(str(v), _DIGITS) for s, v in free.items()})
    if abs(density.evalf(_DIGITS) - sp.Float(str(made[-1]), _DIGITS)) > sp.Float(10, _DIGITS) ** (8 - _DIGITS):
        raise ProofError(f"{_package_name(model)}: log_density is {made[-1]} as printed, {density} as derived")
    again = output([sp.Float(str(value), _DIGITS) for value in made[:-1]])
    for number, (first, second) in enumerate(zip(y, again, strict=True)):
        if abs(first - second) > sp.Float(10, _DIGITS) ** (8 - _DIGITS):
            raise ProofError(f"{_package_name(model)}: entry {number} of y is {second} on the fibre, not {first}")
