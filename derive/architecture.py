"""What a model is: the frozen description every derivation starts from."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from . import symbols

__all__ = ["ACTIVATIONS", "Architecture"]

ACTIVATIONS = ("softmax", "linear")


def _integer(name: str, value: object, least: int, why: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}: {why}")
    return value


def _positive(name: str, value: object, why: str) -> sp.Expr:
    expr = sp.sympify(value)
    if not isinstance(expr, sp.Expr) or expr.has(sp.Float):
        raise ValueError(f"{name} must be exact (an integer, a Rational or a positive Symbol), got {value!r}")
    if not expr.is_positive:
        raise ValueError(f"{name} must be positive, got {value!r}: {why}")
    return expr


@dataclass(frozen=True)
class Architecture:
    """Deep attention network whose output is the attention matrix of its last layer.

    Parameters
    ----------
    layers : int
        Depth L >= 1.
    tokens : int
        Sequence length M >= 2.
    ranks : int or tuple of int
        Rank r_l of the weights of every layer, each >= 1; one integer stands for all layers.
    activation : {"softmax", "linear"}
        Row-wise activation; it acts on ``beta`` times the scores.
    tied : bool
        Keys equal queries. Only True is implemented.
    skip : sympy.Expr
        Strength c > 0 of the skip connection: a positive symbol or an exact positive number.
    beta : sympy.Expr
        Inverse temperature, as `skip`.
    output : {"last"}
        What is observed: the attention matrix of the last layer, as in (6).

    Raises
    ------
    ValueError
        For any value outside these domains, with a sentence that names it.

    References
    ----------
    troiani2025, (2)-(7).
    """

    layers: int
    tokens: int
    ranks: int | tuple[int, ...] = 1
    activation: str = "softmax"
    tied: bool = True
    skip: sp.Expr = symbols.skip
    beta: sp.Expr = symbols.beta
    output: str = "last"

    def __post_init__(self) -> None:
        _integer("layers", self.layers, 1, "the network needs a layer to observe")
        _integer("tokens", self.tokens, 2, "with a single token the attention matrix carries no information")
        ranks = (self.ranks,) * self.layers if isinstance(self.ranks, int) else tuple(self.ranks)
        if len(ranks) != self.layers:
            raise ValueError(f"ranks must be one integer or {self.layers} of them, one per layer, got {ranks}")
        for number, rank in enumerate(ranks, start=1):
            _integer(f"the rank of layer {number}", rank, 1, "a layer without weights has no indices")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {self.activation!r}")
        if self.tied is not True:
            raise ValueError(
                "untied keys and queries, (19)-(24), are not implemented; use tied=True, where keys equal queries"
            )
        if self.output != "last":
            raise ValueError(
                f"output must be 'last' (the attention matrix of the last layer), got {self.output!r}: "
                "sequence-to-sequence outputs, (25)-(26), are not implemented"
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
    def indices(self) -> int:
        """Total number of indices P = r_1 + .. + r_L, (7)."""
        return sum(self.rank_vector)

    @property
    def name(self) -> str:
        """Name of the generated kernel package of the model family, without layers, skip and beta."""
        return f"attention_tied_{self.activation}_m{self.tokens}"

    def index_matrices(self) -> tuple[sp.Matrix, ...]:
        """Symbolic index matrices h_1 .. h_L, matrix l of shape r_l x M, (4)-(7)."""
        return symbols.index_matrices(self.rank_vector, self.tokens)
