"""Every symbol of the derivations, spelled once, with its meaning and its shape.

The names are the field's own; see `GLOSSARY` for the list with shapes.  Positive and real assumptions are
part of a symbol's identity in SymPy, so a symbol must be taken from here and never be created anew.
"""

from dataclasses import dataclass

import sympy as sp

__all__ = [
    "ARGUMENTS",
    "GLOSSARY",
    "LATEX",
    "Entry",
    "a",
    "b",
    "beta",
    "falling",
    "index_matrices",
    "inverse_skip",
    "meaning",
    "mode_rotation",
    "omega_matrix",
    "readout_symbols",
    "rising",
    "row1",
    "row2",
    "skip",
    "step",
    "token_pair",
    "tokens",
    "vm",
    "vp",
    "weight_covariance",
    "xm",
    "xp",
    "y11",
    "y12",
    "y21",
    "y22",
]


@dataclass(frozen=True)
class Entry:
    """One line of the glossary.

    Attributes
    ----------
    name : str
        The symbol as it is printed.
    shape : str
        Its shape, in terms of P (indices), M (tokens), L (layers), r_l (ranks).
    meaning : str
        What it stands for.
    """

    name: str
    shape: str
    meaning: str


skip = sp.Symbol("c", positive=True)
beta = sp.Symbol("beta", positive=True)
tokens = sp.Symbol("M", integer=True, positive=True)
inverse_skip = sp.Symbol("epsilon", real=True)

vp, vm = sp.symbols("vp vm", real=True)
xp, xm = sp.symbols("xp xm", real=True)
row1, row2 = sp.symbols("row1 row2", real=True)
rising, falling = sp.symbols("f1 f2", positive=True)
step = sp.Symbol("step", real=True)
a, b = sp.symbols("a b", real=True)
y11, y12, y21, y22 = sp.symbols("y11 y12 y21 y22", positive=True)

GLOSSARY: tuple[Entry, ...] = (
    Entry("c", "scalar > 0", "strength of the skip connection (3)"),
    Entry("beta", "scalar > 0", "inverse temperature: the activation acts on beta z"),
    Entry("M", "integer >= 2", "number of tokens of a sample (1)"),
    Entry("epsilon", "scalar", "1/c, the expansion parameter of the large-depth limit (46)"),
    Entry("h_l", "r_l x M", "indices of layer l, the projections of the tokens on its weights (4)"),
    Entry("h", "P x M", "all indices, layers stacked in order, P = sum of the ranks (7)"),
    Entry("k_l, q_l", "r_l x M", "indices of keys and queries where the weights are untied (19)-(24)"),
    Entry("o", "H x H", "readout weights that recombine the heads of a layer, known constants (29)-(30)"),
    Entry("B_l", "HM x HM", "mixing matrix: the tokens after l layers are B_l X_0 (4)-(5), (31)-(32)"),
    Entry("omega", "P x M", "mean of the indices in the output channel (9)"),
    Entry("V", "P x P", "covariance of the indices, the same for every token (9)"),
    Entry("y", "M x M", "output of the network, the attention matrix of its last layer (6)"),
    Entry("v_1 .. v_M", "M", "readout row v = h_L B_{L-1}^T of a rank-1 last layer (164)-(168)"),
    Entry("xp, xm", "scalars", "plus and minus modes (z_1 +- z_2)/sqrt(2) of h_1 at M = 2"),
    Entry("vp, vm", "scalars", "plus and minus modes of v at M = 2"),
    Entry("a, b", "scalars", "plus and minus modes of h_L at M = 2"),
    Entry("y11 .. y22", "scalars", "entries of the output y at M = 2"),
)

#: LaTeX of the symbols whose plain names carry no subscript, for ``sympy.latex(.., symbol_names=LATEX)``.
LATEX: dict[sp.Symbol, str] = {
    vp: "v_{+}",
    vm: "v_{-}",
    xp: "x_{+}",
    xm: "x_{-}",
    row1: r"\mathrm{row}_{1}",
    row2: r"\mathrm{row}_{2}",
}

#: Domain and meaning of every argument of a generated kernel.
ARGUMENTS: dict[str, tuple[str, str]] = {
    "c": ("> 0", "strength of the skip connection"),
    "beta": ("> 0", "inverse temperature"),
    "vp": ("real", "plus mode of the readout row v"),
    "vm": ("real", "minus mode of the readout row v"),
    "xp": ("real", "plus mode of the first layer's indices h_1"),
    "xm": ("real", "minus mode of the first layer's indices h_1"),
    "row1": ("from `undo_row`", "first of the two numbers of xm"),
    "row2": ("from `undo_row`", "second of the two numbers of xm"),
    "f1": ("> 0", "exp of the first of `undo_exponents`"),
    "f2": ("> 0", "exp of the second of `undo_exponents`"),
    "step": ("real", "distance of two nodes in xp"),
    "a": ("real", "plus mode of the last layer's indices h_L"),
    "b": ("real", "minus mode of the last layer's indices h_L"),
    "y11": ("> 0", "entry (1, 1) of the output"),
    "y12": ("see domain", "entry (1, 2) of the output"),
    "y21": ("see domain", "entry (2, 1) of the output"),
    "y22": ("> 0", "entry (2, 2) of the output"),
}


def meaning(name: str, given: tuple[tuple[str, str, str], ...] = ()) -> tuple[str, str]:
    """Return domain and meaning of a kernel's argument: as given with the kernel, or from `ARGUMENTS`."""
    for known, domain, what in given:
        if known == name:
            return domain, what
    return ARGUMENTS[name]


def index_matrices(ranks: tuple[int, ...], tokens: int) -> tuple[sp.Matrix, ...]:
    """Return the index matrices h_1 .. h_L with one real symbol per entry.

    Parameters
    ----------
    ranks : tuple of int
        Rank r_l of every layer, each >= 1.
    tokens : int
        Number of tokens M >= 1.

    Returns
    -------
    tuple of sympy.Matrix
        Matrix l has shape r_l x M; entry (k, m) is the symbol ``h<l>_<k>_<m>``, counted from 1.

    References
    ----------
    troiani2025, (4)-(7).
    """
    return tuple(
        sp.Matrix(rank, tokens, lambda k, m, layer=layer: sp.Symbol(f"h{layer}_{k + 1}_{m + 1}", real=True))
        for layer, rank in enumerate(ranks, start=1)
    )


def readout_symbols(tokens: int) -> tuple[sp.Matrix, sp.Matrix]:
    """Return the readout row v (1 x M, real) and the output y (M x M, positive), one symbol per entry.

    References
    ----------
    troiani2025, (163)-(168).
    """
    v = sp.Matrix(1, tokens, lambda _, m: sp.Symbol(f"v{m + 1}", real=True))
    y = sp.Matrix(tokens, tokens, lambda i, j: sp.Symbol(f"y{i + 1}{j + 1}", positive=True))
    return v, y


def omega_matrix(indices: int, tokens: int) -> sp.Matrix:
    """Return the mean omega (P x M) of the output channel (9), one real symbol per entry."""
    return sp.Matrix(indices, tokens, lambda k, m: sp.Symbol(f"omega_{k + 1}_{m + 1}", real=True))


def weight_covariance(indices: int) -> sp.Matrix:
    """Return the symmetric covariance V (P x P) of the output channel (9), one real symbol per entry."""
    return sp.Matrix(indices, indices, lambda i, j: sp.Symbol(f"V_{min(i, j) + 1}_{max(i, j) + 1}", real=True))


def mode_rotation() -> sp.Matrix:
    """Return the orthogonal 2 x 2 matrix whose columns are e_p = (1, 1)/sqrt(2) and e_m = (1, -1)/sqrt(2)."""
    return sp.Matrix([[1, 1], [1, -1]]) / sp.sqrt(2)


def token_pair(plus: sp.Expr, minus: sp.Expr) -> sp.Matrix:
    """Return the row (z_1, z_2) whose modes are ``plus`` and ``minus``."""
    return sp.Matrix([[plus, minus]]) * mode_rotation().T
