"""What a model is: the frozen description every derivation starts from."""

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from . import symbols
from .shown import in_html

__all__ = ["ACTIVATIONS", "OUTPUTS", "Architecture", "IndexBlock"]

ACTIVATIONS = ("softmax", "linear")
OUTPUTS = ("last", "sequence")

# A function of one SymPy expression that acts entry by entry: `sympy.tanh`, a `sympy.Lambda`, a Python function.
Activation = str | Callable[[sp.Expr], sp.Expr]


def _integer(name: str, value: object, least: int, why: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}: {why}")
    return value


def _pair(a: int, b: int, heads: int) -> str:
    """Two heads in a name; numbers of two digits need a mark between them."""
    return f"{a}_{b}" if heads > 9 else f"{a}{b}"


def _positive(name: str, value: object, why: str) -> sp.Expr:
    expr = sp.sympify(value)
    if not isinstance(expr, sp.Expr) or expr.has(sp.Float):
        raise ValueError(f"{name} must be exact (an integer, a Rational or a positive Symbol), got {value!r}")
    if not expr.is_positive:
        raise ValueError(f"{name} must be positive, got {value!r}: {why}")
    return expr


@in_html
@dataclass(frozen=True)
class IndexBlock:
    """Indices of one weight matrix on one block of coordinates: ``w X_0^T sqrt(H/D)``, shape r_l x M.

    Attributes
    ----------
    layer, head, block : int
        Counted from 1; ``block`` is the block of coordinates of the input that the weights are applied to.
    role : {"h", "k", "q"}
        Tied weights, keys or queries.
    start, rank : int
        Its rows among all P indices are start .. start + rank - 1.
    """

    layer: int
    head: int
    block: int
    role: str
    start: int
    rank: int

    def symbols(self, tokens: int, heads: int) -> sp.Matrix:
        """Return the block with one real symbol per entry, ``<role><layer>[_<head><block>]_<row>_<token>``.

        From ten heads on, head and block are two numbers: ``_<head>_<block>``.
        """
        where = f"{self.layer}" if heads == 1 else f"{self.layer}_{_pair(self.head, self.block, heads)}"
        return sp.Matrix(self.rank, tokens, lambda k, m: sp.Symbol(f"{self.role}{where}_{k + 1}_{m + 1}", real=True))


@in_html
@dataclass(frozen=True)
class Architecture:
    """Deep attention network as a sequence multi-index model: what it is made of and what is observed.

    Its P indices are stacked layer by layer; in a layer head by head, in a head first keys then queries (or the
    tied weights), in each block by block: see `index_blocks`.

    Parameters
    ----------
    layers : int
        Depth L >= 1.
    tokens : int
        Sequence length M >= 2.
    ranks : int or tuple of int
        Rank r_l of the weights of every layer, each >= 1; one integer stands for all layers.
    activation : {"softmax", "linear"} or callable
        Row-wise softmax, the identity, or a function of one expression that acts entry by entry (`sympy.tanh`, a
        `sympy.Lambda`); it acts on ``beta`` times the scores.
    tied : bool
        Keys equal queries (2)-(7); False gives each layer both, (19)-(24).
    skip : sympy.Expr
        Strength c > 0 of the skip connection: a positive symbol or an exact positive number.
    beta : sympy.Expr
        Inverse temperature, as `skip`.
    output : {"last", "sequence"}
        What is observed: the attention matrix of the last layer, as in (6), or the mixing matrix B_L of all layers,
        which stands for the tokens that leave the network, (25)-(26).
    heads : int
        Number H >= 1 of heads, each with its own block of D/H coordinates, (27)-(45). With more than one, the heads
        of a layer are recombined by readout weights o, which the link takes as known constants.

    Raises
    ------
    ValueError
        For any value outside these domains, with a sentence that names it.

    References
    ----------
    troiani2025, (2)-(7), (19)-(45).
    """

    layers: int
    tokens: int
    ranks: int | tuple[int, ...] = 1
    activation: Activation = "softmax"
    tied: bool = True
    skip: sp.Expr = symbols.skip
    beta: sp.Expr = symbols.beta
    output: str = "last"
    heads: int = 1

    def __post_init__(self) -> None:
        _integer("layers", self.layers, 1, "the network needs a layer to observe")
        _integer("tokens", self.tokens, 2, "with a single token the attention matrix carries no information")
        ranks = (self.ranks,) * self.layers if isinstance(self.ranks, int) else tuple(self.ranks)
        if len(ranks) != self.layers:
            raise ValueError(f"ranks must be one integer or {self.layers} of them, one per layer, got {ranks}")
        for number, rank in enumerate(ranks, start=1):
            _integer(f"the rank of layer {number}", rank, 1, "a layer without weights has no indices")
        _integer("heads", self.heads, 1, "a layer without heads has no indices")
        if self.activation not in ACTIVATIONS and not callable(self.activation):
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)} or a function of one SymPy expression, "
                f"got {self.activation!r}"
            )
        if not isinstance(self.tied, bool):
            raise ValueError(f"tied must be True (keys equal queries) or False, got {self.tied!r}")
        if self.output not in OUTPUTS:
            raise ValueError(
                f"output must be 'last' (the attention matrix of the last layer) or 'sequence' (B_L), "
                f"got {self.output!r}"
            )
        skip = _positive("skip", self.skip, "without a skip connection the mixing matrices become singular")
        beta = _positive("beta", self.beta, "at zero inverse temperature the output is a constant")
        object.__setattr__(self, "ranks", ranks)
        object.__setattr__(self, "skip", skip)
        object.__setattr__(self, "beta", beta)

    @property
    def rank_vector(self) -> tuple[int, ...]:
        """Ranks (r_1, .., r_L), one per layer."""
        assert isinstance(self.ranks, tuple)
        return self.ranks

    @property
    def single(self) -> bool:
        """Whether this is the model of the main text, (2)-(7): tied, one head, output of the last layer."""
        return self.tied and self.heads == 1 and self.output == "last"

    @property
    def index_blocks(self) -> tuple[IndexBlock, ...]:
        """All blocks of indices in the order of the rows of h, (7), (23), (44)."""
        blocks: list[IndexBlock] = []
        start = 0
        for layer, rank in enumerate(self.rank_vector, start=1):
            for head in range(1, self.heads + 1):
                for role in ("h",) if self.tied else ("k", "q"):
                    for block in range(1, self.heads + 1):
                        blocks.append(IndexBlock(layer, head, block, role, start, rank))
                        start += rank
        return tuple(blocks)

    @property
    def indices(self) -> int:
        """Total number of indices P: r_1 + .. + r_L, twice that if untied, times H^2."""
        return sum(block.rank for block in self.index_blocks)

    @property
    def activation_name(self) -> str:
        """Name of the activation, for files and messages."""
        if isinstance(self.activation, str):
            return self.activation
        if isinstance(self.activation, sp.Lambda):
            return "lambda"
        return str(getattr(self.activation, "__name__", type(self.activation).__name__))

    @property
    def readouts(self) -> tuple[sp.Matrix, ...]:
        """Readout weights o of every layer that mixes heads, H x H symbols ``o<layer>_<a><b>``, (29)-(30).

        From ten heads on ``o<layer>_<a>_<b>``. Empty for one head. The last layer mixes only if the tokens it sends on
        are observed.
        """
        if self.heads == 1:
            return ()
        count = self.layers if self.output == "sequence" else self.layers - 1
        return tuple(
            sp.Matrix(
                self.heads,
                self.heads,
                lambda a, b, n=layer: sp.Symbol(f"o{n}_{_pair(a + 1, b + 1, self.heads)}", real=True),
            )
            for layer in range(1, count + 1)
        )

    @property
    def constants(self) -> tuple[sp.Symbol, ...]:
        """Symbols of skip and beta, then the readout weights."""
        found = [s for value in (self.skip, self.beta) for s in sorted(value.free_symbols, key=lambda s: str(s))]
        return (*found, *(entry for matrix in self.readouts for entry in matrix))

    @property
    def free_means(self) -> tuple[int, ...]:
        """Rows of h whose mean over the tokens the output does not depend on, counted from 0.

        Queries of softmax layers: B_{l-1} 1 is a multiple of 1 in every block, so that a shift of a row of queries
        moves every score of a row of scores alike.
        """
        if self.tied or self.activation != "softmax":
            return ()
        blocks = [block for block in self.index_blocks if block.role == "q"]
        return tuple(row for block in blocks for row in range(block.start, block.start + block.rank))

    @property
    def name(self) -> str:
        """Name of the generated kernel package of the model family, without layers, skip and beta."""
        tied = "tied" if self.tied else "untied"
        more = "" if self.output == "last" else "_sequence"
        more += "" if self.heads == 1 else f"_h{self.heads}"
        return f"attention_{tied}_{self.activation_name}_m{self.tokens}{more}"

    @property
    def title(self) -> str:
        """Name of the model with its depth and ranks."""
        return f"{self.name}, L = {self.layers}, ranks {self.rank_vector}"

    def index_matrices(self) -> tuple[sp.Matrix, ...]:
        """Symbolic indices of every layer, matrix l of shape (rows of layer l) x M, in the order of `index_blocks`."""
        layers: list[sp.Matrix] = []
        for layer in range(1, self.layers + 1):
            blocks = [b.symbols(self.tokens, self.heads) for b in self.index_blocks if b.layer == layer]
            layers.append(sp.Matrix.vstack(*blocks))
        return tuple(layers)
