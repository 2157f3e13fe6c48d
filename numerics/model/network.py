"""The one description of an attention network: its numbers, its link, and what serves as its identity."""

from __future__ import annotations

import hashlib
import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import TYPE_CHECKING, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.errors import KernelNotFoundError
from ..core.identity import source_hash
from ..core.memory import refuse_memory
from ..core.shown import in_html
from ..core.validation import finite, flag, not_negative, positive, whole
from .activations import ACTIVATIONS, Activation, ScoreFunction, activated, finite_output, read_activation
from .blocks import Attention, Chain, Output, Residual, chain_of
from .blocks.protocol import Block
from .derived_module import Worker, derived_module
from .kernels import kernel_package, served

__all__ = ["ACTIVATIONS", "CHART_WORKER", "JACOBIAN_WORKER", "Network", "has_kernel", "kernel"]

Array = NDArray[np.float64]

OUTPUTS = ("last", "sequence")
#: Module of the process that derives charts; all that it imports makes them.
CHART_WORKER = "attnlimits.derive.emit.chart_worker"
# Outputs of lists of blocks.
_OUTPUTS = Worker(
    "outputs",
    "attnlimits.derive.emit.outputs_worker",
    "the output of this list of blocks",
    (("outputs", "(float64[:, :, ::1], float64[::1], float64[:, :, ::1])"),),
    seconds=300.0,
)
#: That of the one that derives Jacobians.
JACOBIAN_WORKER = "attnlimits.derive.emit.jacobian_worker"
# Where no kernel was generated: the posterior of one layer, of several, and on charts.
_ONE_LAYER = "attnlimits.numerics.posterior.fibres"
_SEVERAL_LAYERS = "attnlimits.numerics.posterior.sampled"
_CHARTS = ("attnlimits.numerics.posterior.charts.posterior", "attnlimits.numerics.posterior.data.chart", CHART_WORKER)
# And of all tokens that leave tied layers of rank 1, by the indices that give an output.
_BRANCHES = ("attnlimits.numerics.posterior.branches.posterior", JACOBIAN_WORKER)


@in_html
@dataclass(frozen=True)
class Network:
    """A deep attention network as a sequence multi-index model, with numbers for all its constants.

    Head a of layer l attends on its own block X^(a) of D/H coordinates of the tokens (as rows),
    ``S^(a) = sigma(beta X^(a) k_a^T q_a X^(a)T H/D)``, and the blocks go on as
    ``X^(a) <- c X^(a) + sum_b o_ab S^(b) X^(b)``; with one head ``X <- (c I + S) X``.  The output depends on X through
    the indices h = W x sqrt(H/D) alone: tied and with one head, y = sigma(beta v_L^T v_L) with v_l = h_l B_{l-1}^T and
    B_l = [c I + sigma(beta v_l^T v_l)] B_{l-1}, B_0 = I.

    Parameters
    ----------
    layers : int, str or sequence of blocks
        Depth L >= 1; or, in place of all other parameters but tokens, token_covariance and noise, a list of blocks
        (`al.blocks`) or its text, "attention(causal) | residual | norm | attention(rank=2)".
    tokens : int
        Sequence length M >= 2.
    rank : int or tuple of int
        Rank of the weights of every layer, or one rank per layer; each >= 1.
    skip : float
        Strength c > 0 of the skip connection.
    beta : float
        Inverse temperature > 0.
    activation : {"softmax", "linear"}, str, sympy function or callable
        Row-wise softmax, the identity, or a function that acts entry by entry on z, beta times a score: a text in the
        grammar of links such as "tanh(z)", or SymPy's `sympy.tanh`, which have numbers; or a function of an array.
    tied : bool
        True if the keys are the queries, (2); False gives each head both, (19).
    heads : int
        Number H >= 1 of heads.
    output : {"last", "sequence"}
        The attention matrices of the last layer (6), or the tokens after L layers (25).
    readouts : sequence of array_like, optional
        Readout weights o, shape (H, H), of every layer that mixes heads: the first L - 1, and all L for a sequence
        output.  Needed for H >= 2, where the identity stands for concatenated heads that do not mix.
    noise : float, optional
        Variance Delta >= 0 of Gaussian noise: on the scores beta K^T Q of the softmax that is observed, so that an
        output stays a stochastic matrix; on every entry of any other output.
    mask : {"causal", "window:k"} or array_like, optional
        Which tokens the row of each token sees, in every layer: those up to its own, the k last of these, or an M x M
        array, true where a row sees a token. A softmax is over what a row sees.
    token_covariance : "ar1:rho" or array_like, optional
        Covariance C of the tokens, scaled to the trace M: X_0 = C^{1/2} times independent tokens. The indices are those
        of the independent tokens, and B_0 = C^{1/2}.
    chain : Chain, optional
        The list of blocks as it is kept; made of the other fields.

    Raises
    ------
    ValueError
        An argument is outside its range; the message names it.

    References
    ----------
    troiani2025, (2)-(7), (19), (25), (28)-(30).
    """

    layers: int = 2
    tokens: int = 2
    rank: int | tuple[int, ...] = 1
    skip: float = 1.0
    beta: float = 1.0
    activation: Activation = "softmax"
    tied: bool = True
    heads: int = 1
    output: str = "last"
    readouts: tuple[tuple[tuple[float, ...], ...], ...] | Sequence[ArrayLike] | None = None
    noise: float = 0.0
    mask: str | ArrayLike | None = None
    token_covariance: str | ArrayLike | None = None
    chain: Chain | None = None

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            layers: int = 2,
            tokens: int = 2,
            rank: int | tuple[int, ...] = 1,
            skip: float = 1.0,
            beta: float = 1.0,
            activation: Activation = "softmax",
            tied: bool = True,
            heads: int = 1,
            output: str = "last",
            readouts: Sequence[ArrayLike] | None = None,
            noise: float = 0.0,
            mask: str | ArrayLike | None = None,
            token_covariance: str | ArrayLike | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            layers: str | Sequence[Block],
            tokens: int = 2,
            *,
            noise: float = 0.0,
            token_covariance: str | ArrayLike | None = None,
        ) -> None: ...
        def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        listed = isinstance(self.layers, str | list | tuple)
        if listed or any(x is not None for x in (self.chain, self.mask, self.token_covariance)):
            self._compose()
        if self.chain is not None:
            return
        layers = whole("layers", self.layers, 1, "(2)")
        # Before a tuple of all ranks is made.
        refuse_memory(f"layers = {layers} (overlaps of every two layers)", 8 * layers**2, "take fewer layers")
        ranks = self._checked_ranks(layers)
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be 'last' (6) or 'sequence' (25), got {self.output!r}")
        object.__setattr__(self, "activation", read_activation(self.activation))
        if not callable(self.activation) and self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation must be one of {', '.join(ACTIVATIONS)} or a function of an array (troiani2025 (3)), or "
                f"of z such as 'tanh(z)', got {self.activation!r}"
            )
        fields = {
            "layers": layers,
            "tokens": whole("tokens", self.tokens, 2, "(1)"),
            "rank": ranks[0] if len(set(ranks)) == 1 else ranks,
            "skip": positive("skip", self.skip, "(2)-(3)"),
            "beta": positive("beta", self.beta, "(3)"),
            "tied": flag("tied", self.tied, "keys equal queries, (2)", "(19)"),
            "heads": whole("heads", self.heads, 1, "(27)"),
            "noise": not_negative("noise", self.noise, "(1)"),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "readouts", self._checked_readouts())

    def _compose(self) -> None:
        """Take a list of blocks, or make one of the other fields; set the fields that follow from it."""
        tokens = whole("tokens", self.tokens, 2, "(1)")
        if self.heads != 1 or (self.readouts is not None and len(self.readouts)):
            raise ValueError("a list of blocks, a mask and correlated tokens are served for one head; leave heads out")
        chain = self.chain
        if chain is None:
            listed = isinstance(self.layers, str | list | tuple)
            if listed and self.mask is not None:
                raise ValueError(
                    "mask belongs to each attention of a list: attention(causal), al.blocks.Attention(mask=)"
                )
            given = cast("str | Sequence[Block]", self.layers) if listed else self._layered()
            chain = chain_of(given, tokens, self.token_covariance)
        found: dict[str, object] = {"noise": not_negative("noise", self.noise, "(1)")}
        plain = chain.plain()
        if plain is None:
            found |= {
                "chain": chain,
                "layers": len(chain.groups),
                "rank": tuple(group[0].size for group in chain.groups),
                "activation": chain.shown.activation,
                "tied": not any(rows.role in ("k", "q") for rows in chain.rows),
                "output": "sequence" if chain.shown.tokens else "last",
                "readouts": (),
            }
        else:
            found |= plain
        for name, value in (found | {"tokens": tokens, "mask": None, "token_covariance": None}).items():
            object.__setattr__(self, name, value)

    def _checked_ranks(self, layers: int) -> tuple[int, ...]:
        """Ranks of all layers."""
        ranks = tuple(self.rank) if isinstance(self.rank, tuple | list) else (self.rank,) * layers
        if len(ranks) != layers:
            raise ValueError(f"rank must be one integer or {layers} of them, one per layer (2), got {len(ranks)}")
        return tuple(whole("rank", rank, 1, "(2)") for rank in ranks)

    def _layered(self) -> list[Block]:
        """Blocks of the fields: attention, each with a residual but for one that is observed."""
        layers = whole("layers", self.layers, 1, "(2)")
        blocks: list[Block] = []
        for rank in self._checked_ranks(layers):
            blocks += [Attention(rank, self.tied, self.beta, self.activation, self.mask), Residual(self.skip)]
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be 'last' (6) or 'sequence' (25), got {self.output!r}")
        return [*blocks, Output()] if self.output == "sequence" else blocks[:-1]

    def _checked_readouts(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        count = 0 if self.heads == 1 else self.layers if self.output == "sequence" else self.layers - 1
        try:
            given = () if self.readouts is None else tuple(np.asarray(o, dtype=np.float64) for o in self.readouts)
        except (TypeError, ValueError):
            raise ValueError(
                f"readouts must be a sequence of arrays of numbers, shape (H, H) = ({self.heads}, {self.heads}), for "
                f"every layer that mixes heads (30), here {count}; got {self.readouts!r}"
            ) from None
        if len(given) != count:
            raise ValueError(
                f"readouts must hold {count} matrices o (30) for L = {self.layers}, H = {self.heads} and output "
                f"{self.output!r}, got {len(given)}; give the identity for heads that do not mix"
            )
        for number, matrix in enumerate(given, start=1):
            if matrix.shape != (self.heads, self.heads) or not np.isfinite(matrix).all():
                raise ValueError(
                    f"o of layer {number} must be a finite array of shape (H, H) = ({self.heads}, {self.heads}) (30), "
                    f"got shape {matrix.shape}"
                )
        return tuple(tuple(tuple(map(float, row)) for row in matrix) for matrix in given)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Rank of each layer, first layer first."""
        return self.rank if isinstance(self.rank, tuple) else (self.rank,) * self.layers

    @property
    def kinds(self) -> int:
        """Weight matrices per head and layer: 1 if tied, 2 (keys, then queries) if not; of lists see `parts`."""
        return 1 if self.tied else 2

    @property
    def weight_rows(self) -> int:
        """Rows of the stacked weights: layer by layer, head by head, keys before queries."""
        if self.chain is not None:
            return self.chain.indices
        return self.heads * self.kinds * sum(self.ranks)

    @property
    def indices(self) -> int:
        """Number P of indices: every weight row meets every block of coordinates."""
        return self.heads * self.weight_rows

    @property
    def mixing_size(self) -> int:
        """Rows of the mixing matrices B_l, HM."""
        return self.heads * self.tokens

    @property
    def single(self) -> bool:
        """Whether it has one head, an activation with a name, and its last layer is seen without noise."""
        plain = self.heads == 1 and self.output == "last" and not callable(self.activation)
        return plain and not self.noise and self.chain is None

    @property
    def one_head(self) -> Network:
        """The same with one head, whose attention is the output."""
        return replace(self, heads=1, output="last", readouts=None)

    @property
    def side_by_side(self) -> bool:
        """Whether it is several heads that do not mix: networks of one head, each on its own D/H coordinates."""
        assert self.readouts is not None
        return self.heads > 1 and all(np.array_equal(o, np.eye(self.heads)) for o in self.readouts)

    @property
    def random(self) -> bool:
        """Whether outputs are random given the indices."""
        return self.noise > 0

    @property
    def noise_rows(self) -> int:
        """Rows of M independent numbers that the noise of one output is made of."""
        if not self.noise:
            return 0
        if self.chain is not None:
            return self.chain.shown.noise_rows(self.tokens)
        if self.output == "sequence":
            return self.heads**2 * self.tokens
        # An output of softmax shows the differences of the scores of a row.
        return self.heads * (self.tokens - (self.activation == "softmax"))

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of one output of `link`."""
        if self.chain is not None:
            return self.chain.shown.shape
        return (self.mixing_size, self.mixing_size if self.output == "sequence" else self.tokens)

    @property
    def blocks(self) -> list[tuple[str, slice]]:
        """Names and rows of what is learned as one: the layers if tied, keys and queries of each if not."""
        if self.chain is not None:
            return self.chain.names
        where = [f"layer {number}" for number in range(1, self.layers + 1)]
        if not self.tied and self.layers == 1:
            where = ["keys", "queries"]
        elif not self.tied:
            where = [f"{kind} of {layer}" for layer in where for kind in ("keys", "queries")]
        edges = [0, *accumulate(rank * self.heads**2 for rank in self.ranks for _ in range(self.kinds))]
        return [(name, slice(a, b)) for name, (a, b) in zip(where, pairwise(edges), strict=True)]

    @property
    def coupled(self) -> bool:
        """Whether the posterior given y alone couples the blocks: keys with queries; of tied layers each has a sign."""
        return not self.tied

    @property
    def parts(self) -> tuple[tuple[tuple[slice, ...], ...], ...]:
        """Rows of h that are learned together: layer by layer and head by head, its keys and its queries, all blocks.

        Each part holds the slices of each kind of its weights, one for each block of coordinates that they meet.
        """
        if self.chain is not None:
            return tuple(tuple((rows.slice,) for rows in group) for group in self.chain.groups)
        found, start = [], 0
        for rank in self.ranks:
            for _ in range(self.heads):
                kinds = []
                for _ in range(self.kinds):
                    kinds.append(tuple(slice(start + b * rank, start + (b + 1) * rank) for b in range(self.heads)))
                    start += rank * self.heads
                found.append(tuple(kinds))
        return tuple(found)

    @property
    def seen_last(self) -> bool:
        """Whether the attention of the last layer is what is observed."""
        if self.chain is not None:
            return self.chain.shown.attention
        return self.output == "last"

    @property
    def request(self) -> dict[str, object]:
        """What derives its modules is told (`derived_module`)."""
        if self.chain is not None:
            return self.chain.request
        return {
            "layers": self.layers,
            "tokens": self.tokens,
            "ranks": list(self.ranks),
            "activation": self.activation_name,
            "tied": self.tied,
            "heads": self.heads,
            "output": self.output,
        }

    @property
    def constants(self) -> Array:
        """Constants as derived functions take them: skip, beta, readout weights; those of the blocks of a list."""
        if self.chain is not None:
            return self.chain.constants
        weights = [np.asarray(matrix, dtype=np.float64).ravel() for matrix in self.readouts or ()]
        return np.concatenate([[self.skip, self.beta], *weights])

    @property
    def parameters(self) -> dict[str, object]:
        """What defines the model, by the names of the flags of the command."""
        if self.chain is not None:
            return self._listed
        named: dict[str, object] = {"layers": self.layers, "tokens": self.tokens, "rank": self.rank}
        if self._skips:
            named["skip"] = self.skip
        named |= {"beta": self.beta, "activation": self.activation_name, "untied": not self.tied}
        if self.heads > 1:
            named |= {"heads": self.heads, "readouts": self.readouts}
        if self.output != "last":
            named["output"] = self.output
        if self.noise:
            named["noise"] = self.noise
        return named

    @property
    def _listed(self) -> dict[str, object]:
        """Parameters of a list of blocks; planted overlaps have no flag, and stand by their hash."""
        assert self.chain is not None
        named: dict[str, object] = {"blocks": self.chain.text(), "tokens": self.tokens}
        if self.chain.covariance is not None:
            named["token-covariance"] = self.chain.covariance
        if self.chain.planted:
            named["overlaps"] = hashlib.sha256(self.chain.constants.tobytes()).hexdigest()[:16]
        return named | ({"noise": self.noise} if self.noise else {})

    def describe(self) -> str:
        """Return one line that names the model."""
        if self.chain is not None:
            more = ", correlated tokens" if self.chain.covariance is not None else ""
            noise = f", noise {self.noise:g}" if self.noise else ""
            return f"{self.chain.text()}, M={self.tokens}{more}{noise}"
        rank = self.rank if isinstance(self.rank, int) else ",".join(map(str, self.rank))
        return (
            f"{'tied' if self.tied else 'untied'} {self.activation_name} attention, L={self.layers}, M={self.tokens}, "
            f"rank {rank}, {f'c={self.skip:g}, ' if self._skips else ''}beta={self.beta:g}"
            f"{f', H={self.heads}' if self.heads > 1 else ''}"
            f"{f', output B_{self.layers}' if self.output == 'sequence' else ''}"
            f"{f', noise {self.noise:g}' if self.noise else ''}"
        )

    @property
    def activation_name(self) -> str:
        """Name of the activation; of a function its own."""
        if isinstance(self.activation, str):
            return self.activation
        return getattr(self.activation, "__name__", type(self.activation).__name__)

    @property
    def _skips(self) -> bool:
        """Whether c is named: always but for a single untied layer, whose output does not depend on it."""
        return self.tied or self.layers > 1 or self.output == "sequence"

    @property
    def branched(self) -> bool:
        """Whether finitely many indices give an output: all tokens that leave several tied softmax layers of rank 1.

        The M (M - 1) numbers of an output fix the L M entries of h: two layers of three tokens up to a few choices,
        which a search finds, and fewer layers than M - 1 up to the signs of the layers (`unique_preimage`). Outputs of
        linear layers are of low rank: they lie on a surface, and leave more open.
        """
        if self.chain is not None or not (self.tied and self.heads == 1 and set(self.ranks) == {1}):
            return False
        if self.output != "sequence" or self.noise or self.activation != "softmax" or self.layers < 2:
            return False
        return self.unique_preimage or self.layers == 2 < self.tokens

    @property
    def unique_preimage(self) -> bool:
        """Whether almost every output of a branched network comes from one h, up to the signs of the layers.

        Where the numbers of an output exceed the entries of h, pairs of indices with one output are fewer than indices,
        by as many dimensions.
        """
        return self.layers < self.tokens - 1

    @cached_property
    def kernel_hash(self) -> str:
        """Derivation hash of the generated kernel of the model; where there is none, hash of its link and posterior."""
        if has_kernel(self):
            return str(importlib.import_module(kernel_package(self.activation_name, self.tokens)).DERIVATION_HASH)
        if self.single and self.layers == 1 and self.indices <= 3:
            found = source_hash(__name__, _ONE_LAYER)
        elif self.single and self.tied and set(self.ranks) == {1}:
            found = source_hash(__name__, _SEVERAL_LAYERS)
        elif self.branched:
            found = source_hash(__name__, *_BRANCHES)
        else:
            found = source_hash(__name__, *_CHARTS)
        own = isinstance(self.activation, ScoreFunction)
        return hashlib.sha256(f"{found} {self.activation_name}".encode()).hexdigest() if own else found

    def link(self, h: ArrayLike) -> Array:
        """Output y = g(h), from the indices alone.

        Parameters
        ----------
        h : array_like, shape (..., P, M)
            Indices in the order of `networks.indices`.

        Returns
        -------
        ndarray
            Attention matrices of the last layer, shape (..., HM, M), or the mixing matrix B_L, shape (..., HM, HM), for
            a sequence output; see `networks.apply_mixing` for the tokens.

        Raises
        ------
        ValueError
            If h has another shape or an entry is not finite.
        OverflowError
            If the output exceeds float64, which only unbounded activations reach.

        References
        ----------
        troiani2025, (5)-(7), (21)-(26), (31)-(32), (44)-(45).
        """
        if self.chain is not None:
            return self._outputs(h)
        last_mixing, attention = self._propagate(h)
        return finite_output(last_mixing if self.output == "sequence" else attention, self.layers)

    def observed(self, y: ArrayLike, normals: ArrayLike) -> Array:
        """Outputs with their noise.

        Parameters
        ----------
        y : array_like
            Outputs of `link`.
        normals : array_like, of the same shape
            Standard normal.
        """
        exact, moved = np.asarray(y, np.float64), math.sqrt(self.noise) * np.asarray(normals, np.float64)
        if self.activation != "softmax" or self.output == "sequence":
            return exact + moved
        with np.errstate(divide="ignore"):
            return activated(np.log(exact) + moved, self.activation, 1.0)

    def mixing(self, h: ArrayLike) -> Array:
        """Mixing matrix that the last layer sees, B_{L-1}; B_L for a sequence output.

        Parameters
        ----------
        h : array_like, shape (..., P, M)
            Indices in the order of `networks.indices`; for an output of the last layer its rows do not enter.

        Returns
        -------
        ndarray, shape (..., HM, HM)

        Raises
        ------
        ValueError
            If h has another shape or an entry is not finite.
        OverflowError
            If the matrix exceeds float64, which only unbounded activations reach.

        References
        ----------
        troiani2025, (5), (21), (31)-(32).
        """
        if self.chain is not None:
            raise ValueError("mixing is of plain layers; the tokens of a list of blocks are its output(sequence)")
        return finite_output(self._propagate(h)[0], self.layers)

    def _checked(self, indices_of_all: ArrayLike) -> Array:
        """Indices, after a check of their shape."""
        h = finite("h", indices_of_all)
        if h.ndim < 2 or h.shape[-2:] != (self.indices, self.tokens):
            raise ValueError(f"h must have shape (..., P, M) = (..., {self.indices}, {self.tokens}) (7), got {h.shape}")
        return h

    def _outputs(self, indices_of_all: ArrayLike) -> Array:
        """Outputs of a list of blocks, by the function that is derived for it."""
        h = self._checked(indices_of_all)
        flat = np.ascontiguousarray(h.reshape(-1, self.indices, self.tokens))
        out = np.empty((len(flat), *self.output_shape))
        derived_module(_OUTPUTS, self).outputs(flat, self.constants, out)
        return finite_output(out.reshape(*h.shape[:-2], *self.output_shape), self.layers)

    def _propagate(self, indices_of_all: ArrayLike) -> tuple[Array, Array]:
        """Return the last mixing matrix and the attention matrices of the last layer, which may exceed float64."""
        h = self._checked(indices_of_all)
        heads, tokens, size, kinds = self.heads, self.tokens, self.mixing_size, self.kinds
        lead = h.shape[:-2]
        mixed = attention = np.broadcast_to(np.eye(size), (*lead, size, size))
        start = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for layer, rank in enumerate(self.ranks):
                count = heads * kinds * heads * rank
                # a head, k kind, b block, r row, m token; a readout adds up over b and m.
                rows = h[..., start : start + count, :].reshape(*lead, heads, kinds, heads, rank, tokens)
                rows = np.swapaxes(rows, -3, -2).reshape(*lead, heads, kinds, rank, size)
                start += count
                # One head of the first layer sees the tokens as they are: the product with the identity is left out.
                plain = layer == 0 and heads == 1
                seen = rows if plain else rows @ np.swapaxes(mixed.reshape(*lead, heads, 1, tokens, size), -1, -2)
                scores = np.swapaxes(seen[..., 0, :, :], -1, -2) @ seen[..., -1, :, :]
                attention = activated(scores, self.activation, self.beta).reshape(*lead, size, tokens)
                if layer == self.layers - 1 and self.output == "last":
                    break
                if heads == 1:
                    factor = attention
                else:
                    assert self.readouts is not None
                    o = np.asarray(self.readouts[layer])
                    blocks = attention.reshape(*lead, heads, tokens, tokens)
                    factor = np.einsum("ab,...bmn->...ambn", o, blocks).reshape(*lead, size, size)
                mixed = self.skip * mixed + (factor if plain else factor @ mixed)
        return mixed, attention


def has_kernel(model: Network) -> bool:
    """Whether a kernel of the model was generated."""
    return model.tied and model.single and set(model.ranks) == {1} and (model.activation_name, model.tokens) in served()


def kernel(model: Network, printer: str) -> ModuleType:
    """Load the generated kernel of a model.

    Parameters
    ----------
    model : Network
    printer : {"numpy64", "numba64", "mp", "posterior64"}
        Which printing of it.

    Raises
    ------
    KernelNotFoundError
        No kernel was generated for this architecture; the message lists what exists.
    """
    if not has_kernel(model):
        have = "; ".join(f"{a}, M={m}, rank 1, any depth" for a, m in served())
        raise KernelNotFoundError(f"no kernel for {model.describe()}; generated so far: {have}")
    return importlib.import_module(f"{kernel_package(model.activation_name, model.tokens)}.{printer}")
