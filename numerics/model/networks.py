"""Every attention network at finite dimension, and its link on the indices: two routes to the same output.

`forward` runs the network by its definition, on embeddings of dimension D; `link` needs the indices alone, which
`indices` computes.  That both agree is what makes the network a sequence multi-index model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.validation import flag, numbers, positive, whole

__all__ = ["Network", "apply_mixing", "forward", "indices", "link", "mixing", "random_weights"]

Array = NDArray[np.float64]
Activation = str | Callable[[Array], Array]

ACTIVATIONS = ("softmax", "linear")
OUTPUTS = ("last", "sequence")


@dataclass(frozen=True)
class Network:
    """A deep attention network with numbers for all its constants.

    Head a of layer l attends on its own block X^(a) of D/H coordinates of the tokens (as rows),
    ``S^(a) = sigma(beta X^(a) k_a^T q_a X^(a)T H/D)``, and the blocks go on as
    ``X^(a) <- c X^(a) + sum_b o_ab S^(b) X^(b)``; with one head ``X <- (c I + S) X``.

    Parameters
    ----------
    layers : int
        Depth L >= 1.
    tokens : int
        Sequence length M >= 2.
    ranks : int or tuple of int
        Rank of the weights of every layer, or one rank per layer; each >= 1.
    heads : int
        Number H >= 1 of heads.
    tied : bool
        True if the keys are the queries, (2); False gives each head both, (19).
    output : {"last", "sequence"}
        The attention matrices of the last layer (6), or the tokens after L layers (25).
    skip, beta : float
        Strength c > 0 of the skip connection and inverse temperature > 0.
    activation : {"softmax", "linear"} or callable
        Row-wise softmax, the identity, or a function of an array that acts entry by entry, on beta times the scores.
    readouts : sequence of array_like, optional
        Readout weights o, shape (H, H), of every layer that mixes heads: the first L - 1, and all L for a sequence
        output.  Needed for H >= 2, where the identity stands for concatenated heads that do not mix.

    Raises
    ------
    ValueError
        If an argument is outside its range; the message names it.

    References
    ----------
    troiani2025, (2)-(3), (19), (25), (28)-(30).
    """

    layers: int
    tokens: int
    ranks: int | tuple[int, ...] = 1
    heads: int = 1
    tied: bool = True
    output: str = "last"
    skip: float = 1.0
    beta: float = 1.0
    activation: Activation = "softmax"
    readouts: tuple[tuple[tuple[float, ...], ...], ...] | Sequence[ArrayLike] | None = None

    def __post_init__(self) -> None:
        """Validate and normalise the fields."""
        layers = whole("layers", self.layers, 1, "(2)")
        ranks = tuple(self.ranks) if isinstance(self.ranks, tuple | list) else (self.ranks,) * layers
        if len(ranks) != layers:
            raise ValueError(f"ranks must be one integer or {layers} of them, one per layer (2), got {len(ranks)}")
        tied = flag("tied", self.tied, "keys equal queries, (2)", "(19)")
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be 'last' (6) or 'sequence' (25), got {self.output!r}")
        if not callable(self.activation) and self.activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(
                f"activation must be one of {known} or a function of an array (3), got {self.activation!r}"
            )
        fields = {
            "layers": layers,
            "tokens": whole("tokens", self.tokens, 2, "(1)"),
            "ranks": tuple(whole("every rank", rank, 1, "(2)") for rank in ranks),
            "heads": whole("heads", self.heads, 1, "(27)"),
            "tied": tied,
            "skip": positive("skip", self.skip, "(3)"),
            "beta": positive("beta", self.beta, "(3)"),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "readouts", self._checked_readouts())

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
    def rank_vector(self) -> tuple[int, ...]:
        """Rank of each layer, first layer first."""
        assert isinstance(self.ranks, tuple)
        return self.ranks

    @property
    def kinds(self) -> int:
        """Weight matrices per head and layer: 1 if tied, 2 (keys, then queries) if not."""
        return 1 if self.tied else 2

    @property
    def weight_rows(self) -> int:
        """Rows of the stacked weights: layer by layer, head by head, keys before queries."""
        return self.heads * self.kinds * sum(self.rank_vector)

    @property
    def indices(self) -> int:
        """Number P of indices: every weight row meets every block of coordinates."""
        return self.heads * self.weight_rows

    @property
    def mixing_size(self) -> int:
        """Rows of the mixing matrices B_l, HM."""
        return self.heads * self.tokens

    def _activate(self, scores: Array) -> Array:
        scores = self.beta * scores
        if self.activation == "linear":
            return scores
        if self.activation == "softmax":
            powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=-1, keepdims=True), dtype=np.float64)
        assert callable(self.activation)
        try:
            value = np.asarray(self.activation(scores), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                "activation must take an array of scores and return an array of numbers, entry by entry (3); it failed "
                f"with {type(error).__name__}: {error}"
            ) from error
        if value.shape != scores.shape:
            raise ValueError(f"activation must act entry by entry (3): shape {scores.shape} in, but {value.shape} out")
        bad = np.isfinite(scores) & ~np.isfinite(value)
        if bad.any():
            got, where = float(value[bad][0]), float(scores[bad][0])
            raise ValueError(f"activation must be finite at every finite score (3), got {got} at the score {where:g}")
        return value


def _finite(name: str, value: ArrayLike) -> Array:
    array = numbers(name, value)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def _result(value: Array, network: Network) -> Array:
    if not np.isfinite(value).all():
        raise OverflowError(
            f"the output of {network.layers} layers exceeds float64 (2)-(3): use smaller inputs, beta or skip, or the "
            "softmax activation, whose outputs are bounded"
        )
    return value


def _inputs(x: ArrayLike, weights: ArrayLike, network: Network) -> tuple[Array, Array]:
    sample, rows = _finite("x", x), _finite("weights", weights)
    if sample.ndim < 2 or sample.shape[-1] != network.tokens:
        raise ValueError(f"x must have shape (..., D, M) with M = {network.tokens} tokens (1), got {sample.shape}")
    dimension = sample.shape[-2]
    if dimension % network.heads or dimension == 0:
        raise ValueError(f"D must be a positive multiple of the {network.heads} heads (27), got {dimension}")
    wanted = (network.weight_rows, dimension // network.heads)
    if rows.shape != wanted:
        raise ValueError(f"weights must have shape (rows, D/H) = {wanted} (2), (19), (28), got {rows.shape}")
    return sample, rows


def random_weights(network: Network, dimension: int, rng: np.random.Generator | int | None = None) -> Array:
    """Draw standard Gaussian weights of all layers.

    Parameters
    ----------
    network : Network
    dimension : int
        Embedding dimension D, a multiple of the number of heads.
    rng : numpy.random.Generator, int or None
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, shape (weight_rows, D/H)
        Layer by layer, head by head, keys before queries, as `Network.weight_rows`.
    """
    dimension = whole("dimension", dimension, 1, "(1)")
    if dimension % network.heads:
        raise ValueError(f"D must be a multiple of the {network.heads} heads (27), got {dimension}")
    return np.random.default_rng(rng).standard_normal((network.weight_rows, dimension // network.heads))


def _parts(rows: Array, network: Network, layer: int) -> list[tuple[Array, Array]]:
    """Keys and queries of every head of a layer, from an array whose rows are those of the weights."""
    start = network.heads * network.kinds * sum(network.rank_vector[:layer])
    rank = network.rank_vector[layer]
    parts = []
    for _ in range(network.heads):
        keys = rows[..., start : start + rank, :]
        start += (network.kinds - 1) * rank
        parts.append((keys, rows[..., start : start + rank, :]))
        start += rank
    return parts


def forward(x: ArrayLike, weights: ArrayLike, network: Network) -> Array:
    """Run the network on embeddings of finite dimension, by its definition.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
        Samples, tokens as columns.
    weights : array_like, shape (weight_rows, D/H)
        As `random_weights`.
    network : Network

    Returns
    -------
    ndarray
        Attention matrices of the last layer, those of the heads one below the other, shape (..., HM, M); or the
        tokens after L layers, shape (..., D, M), for a sequence output.

    Raises
    ------
    ValueError
        If a shape is wrong or an entry is not finite.
    OverflowError
        If the output exceeds float64, which only unbounded activations reach.

    References
    ----------
    troiani2025, (2)-(3), (19), (25), (28)-(30).
    """
    sample, rows = _inputs(x, weights, network)
    width = sample.shape[-2] // network.heads
    # Tokens as rows, one array per block of coordinates.
    state = [np.swapaxes(sample[..., a * width : (a + 1) * width, :], -1, -2) for a in range(network.heads)]
    attention: list[Array] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for layer in range(network.layers):
            attention = []
            for tokens, (key, query) in zip(state, _parts(rows, network, layer), strict=True):
                scores = (tokens @ key.T) @ np.swapaxes(tokens @ query.T, -1, -2) / width
                attention.append(network._activate(scores))
            if layer == network.layers - 1 and network.output == "last":
                return _result(np.concatenate(attention, axis=-2), network)
            moved = [s @ tokens for s, tokens in zip(attention, state, strict=True)]
            if network.heads > 1:
                assert network.readouts is not None
                o = np.asarray(network.readouts[layer])
                moved = [
                    sum((o[a, b] * moved[b] for b in range(1, network.heads)), o[a, 0] * moved[0])
                    for a in range(network.heads)
                ]
            state = [network.skip * tokens + change for tokens, change in zip(state, moved, strict=True)]
        return _result(np.swapaxes(np.concatenate(state, axis=-1), -1, -2), network)


def indices(x: ArrayLike, weights: ArrayLike, network: Network) -> Array:
    """Project the samples on the weights: ``h = w X^(b) sqrt(H/D)`` for every weight row and block of coordinates.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
    weights : array_like, shape (weight_rows, D/H)
    network : Network

    Returns
    -------
    ndarray, shape (..., P, M)
        Layer by layer, head by head, keys before queries, block by block, each block with all its rows.

    References
    ----------
    troiani2025, (4), (20), (33)-(43).
    """
    sample, rows = _inputs(x, weights, network)
    width = sample.shape[-2] // network.heads
    parts = []
    for layer in range(network.layers):
        for pair in _parts(rows, network, layer):
            for weight in pair[: network.kinds]:
                for block in range(network.heads):
                    parts.append(weight @ sample[..., block * width : (block + 1) * width, :])
    return np.concatenate(parts, axis=-2) / math.sqrt(width)


def link(h: ArrayLike, network: Network) -> Array:
    """Compute the output from the indices alone.

    Parameters
    ----------
    h : array_like, shape (..., P, M)
        Indices in the order of `indices`.
    network : Network

    Returns
    -------
    ndarray
        Attention matrices of the last layer, shape (..., HM, M), or the mixing matrix B_L, shape (..., HM, HM), for
        a sequence output; see `apply_mixing` for the tokens.

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
    last_mixing, attention = _propagate(h, network)
    return _result(last_mixing if network.output == "sequence" else attention, network)


def mixing(h: ArrayLike, network: Network) -> Array:
    """Compute the mixing matrix that the last layer sees, B_{L-1}; B_L for a sequence output.

    Parameters
    ----------
    h : array_like, shape (..., P, M)
        Indices in the order of `indices`; for the last attention matrix those of the last layer do not enter.
    network : Network

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
    return _result(_propagate(h, network)[0], network)


def _propagate(indices_of_all: ArrayLike, network: Network) -> tuple[Array, Array]:
    """Return the last mixing matrix and the attention matrices of the last layer, which may exceed float64."""
    h = _finite("h", indices_of_all)
    if h.ndim < 2 or h.shape[-2:] != (network.indices, network.tokens):
        raise ValueError(
            f"h must have shape (..., P, M) = (..., {network.indices}, {network.tokens}) (7), got {h.shape}"
        )
    heads, tokens, size, kinds = network.heads, network.tokens, network.mixing_size, network.kinds
    lead = h.shape[:-2]
    mixed = np.broadcast_to(np.eye(size), (*lead, size, size))
    attention = mixed
    start = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for layer, rank in enumerate(network.rank_vector):
            count = heads * kinds * heads * rank
            # a head, k kind, b block, r row, m token; a readout adds up over b and m.
            rows = h[..., start : start + count, :].reshape(*lead, heads, kinds, heads, rank, tokens)
            rows = np.swapaxes(rows, -3, -2).reshape(*lead, heads, kinds, rank, size)
            start += count
            seen = rows @ np.swapaxes(mixed.reshape(*lead, heads, 1, tokens, size), -1, -2)
            scores = np.swapaxes(seen[..., 0, :, :], -1, -2) @ seen[..., -1, :, :]
            attention = network._activate(scores).reshape(*lead, size, tokens)
            if layer == network.layers - 1 and network.output == "last":
                break
            if heads == 1:
                factor = attention
            else:
                assert network.readouts is not None
                o = np.asarray(network.readouts[layer])
                blocks = attention.reshape(*lead, heads, tokens, tokens)
                factor = np.einsum("ab,...bmn->...ambn", o, blocks).reshape(*lead, size, size)
            mixed = network.skip * mixed + factor @ mixed
    return mixed, attention


def apply_mixing(x: ArrayLike, mixing: ArrayLike, network: Network) -> Array:
    """Return the tokens ``X_l^(a) = sum_b B^{(ab)} X_0^(b)`` that a mixing matrix makes of the samples.

    Parameters
    ----------
    x : array_like, shape (..., D, M)
    mixing : array_like, shape (..., HM, HM)
    network : Network

    Returns
    -------
    ndarray, shape (..., D, M)

    References
    ----------
    troiani2025, (4), (31).
    """
    sample, matrix = _finite("x", x), _finite("mixing", mixing)
    size, heads = network.mixing_size, network.heads
    if sample.ndim < 2 or sample.shape[-1] != network.tokens or sample.shape[-2] % heads:
        raise ValueError(
            f"x must have shape (..., D, M) with M = {network.tokens} and D a multiple of {heads} heads (1), (27), "
            f"got {sample.shape}"
        )
    if matrix.shape[-2:] != (size, size):
        raise ValueError(f"mixing must have shape (..., HM, HM) = (..., {size}, {size}) (5), got {matrix.shape}")
    try:
        np.broadcast_shapes(matrix.shape[:-2], sample.shape[:-2])
    except ValueError:
        raise ValueError(
            f"mixing and x must have leading shapes that fit, got {matrix.shape[:-2]} and {sample.shape[:-2]}"
        ) from None
    blocks = matrix.reshape(*matrix.shape[:-2], heads, network.tokens, heads, network.tokens)
    parts = sample.reshape(*sample.shape[:-2], heads, sample.shape[-2] // heads, network.tokens)
    made = np.einsum("...ambn,...bdn->...adm", blocks, parts)
    return _result(made.reshape(*made.shape[:-3], sample.shape[-2], network.tokens), network)
