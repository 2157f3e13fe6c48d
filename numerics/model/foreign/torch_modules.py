"""Attention layers of PyTorch modules, by their attributes alone: PyTorch is not imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.typing import Array
from .attention import AttentionLayer, attention_layer, by_heads, count_heads, tensor, unlike_keys

__all__ = ["torch_layers"]

# Names of linear maps of queries, keys, values and of the output in modules by hand.
_LINEAR = (
    (("q_proj", "k_proj", "v_proj"), ("o_proj", "out_proj", "dense")),
    (("query", "key", "value"), ("out", "out_proj", "dense")),
    (("to_q", "to_k", "to_v"), ("to_out",)),
    (("wq", "wk", "wv"), ("wo",)),
    (("W_q", "W_k", "W_v"), ("W_o",)),
    (("W_Q", "W_K", "W_V"), ("W_O",)),
)
# Names of one linear map of all three, in this order.
_STACKED = (("qkv", ("proj", "out_proj")), ("c_attn", ("c_proj",)))
_CROSSED = "its keys are those of another sequence (cross-attention of a decoder), which a network has not."
# Names of the number of heads in modules and in their configurations.
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads")


class _Other(NamedTuple):
    """A module with parameters that is no attention."""

    name: str
    kind: str


class _Maps(NamedTuple):
    """Weights and biases of the linear maps of an attention by hand; None for those that are not there."""

    names: Sequence[str]
    weights: Sequence[Any]
    biases: Sequence[Any]
    out: Any


def torch_layers(module: Any, heads: int | None = None) -> list[AttentionLayer]:
    """Attention layers of a module and of those in it, in the order in which they were registered.

    Parameters
    ----------
    module : torch.nn.Module, or a sequence of them
        `MultiheadAttention`, layers and stacks of `TransformerEncoder`, or modules with linear maps of queries and
        keys, such as `q_proj` and `k_proj`.
    heads : int, optional
        Of linear maps whose module has no such number.

    Raises
    ------
    ValueError
        If there is none, or one cannot be read; the message names it.
    """
    wanted = None if heads is None else count_heads(heads)
    layers: list[AttentionLayer] = []
    # What stands before the first layer, and after each.
    beside: list[list[_Other]] = [[]]
    for found in _walk(module, "", wanted):
        if isinstance(found, AttentionLayer):
            layers.append(found)
            beside.append([])
        else:
            beside[-1].append(found)
    if not layers:
        names = ", ".join(other.name or other.kind for other in beside[0][:5]) or "none"
        raise ValueError(
            f"module must hold a MultiheadAttention or linear maps such as q_proj and k_proj, got "
            f"{type(module).__name__} with the modules: {names}; al.from_weights takes the arrays of any layer"
        )
    layers = [replace(one, after=(*one.after, *_left_out(o))) for one, o in zip(layers, beside[1:], strict=True)]
    layers[0] = replace(layers[0], before=(*_left_out(beside[0]), *layers[0].before))
    return layers


def _left_out(others: Sequence[_Other]) -> tuple[str, ...]:
    if not others:
        return ()
    return (f"not represented: {', '.join(f'{other.kind} {other.name}'.strip() for other in others)}.",)


def _walk(module: Any, name: str, heads: int | None) -> Iterator[AttentionLayer | _Other]:
    """Attention layers and other modules with parameters, depth first."""
    if hasattr(module, "num_heads") and (
        getattr(module, "in_proj_weight", None) is not None or hasattr(module, "q_proj_weight")
    ):
        yield _multihead(module, name)
        return
    maps = _linear_maps(module, name or type(module).__name__)
    if maps is not None:
        yield _by_linear_maps(module, name, maps, heads)
        return
    children = list(_children(module))
    residual = hasattr(module, "self_attn") and hasattr(module, "norm_first")
    for part, child in children:
        for found in _walk(child, f"{name}.{part}".lstrip("."), heads):
            if residual and isinstance(found, AttentionLayer):
                crossed = (_CROSSED,) if part == "multihead_attn" else ()
                yield replace(found, skip=1.0, before=(*found.before, *crossed, *_norm_first(module)))
            else:
                yield found
    own = getattr(module, "_parameters", None) or {}
    if not children and (any(value is not None for value in own.values()) or (not own and hasattr(module, "weight"))):
        yield _Other(name, type(module).__name__)


def _children(module: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(module, list | tuple):
        yield from ((str(number), child) for number, child in enumerate(module))
    elif hasattr(module, "named_children"):
        yield from module.named_children()


def _norm_first(module: Any) -> tuple[str, ...]:
    if not module.norm_first:
        return ()
    return (
        "tokens are normalised before the attention: each has norm sqrt(D), as those of a network have on average; "
        "scale and bias of the norm are not read.",
    )


def _multihead(module: Any, name: str) -> AttentionLayer:
    """Read a `torch.nn.MultiheadAttention`."""
    heads = count_heads(int(module.num_heads))
    label = name or type(module).__name__
    if getattr(module, "in_proj_weight", None) is not None:
        stacked = tensor(f"in_proj_weight of {label}", module.in_proj_weight)
        if stacked.ndim != 2 or stacked.shape[0] != 3 * stacked.shape[1]:
            raise ValueError(f"in_proj_weight of {label} must have shape (3 D, D), got {stacked.shape}")
        rows = np.split(stacked, 3)
    else:
        rows = [tensor(f"{part}_proj_weight of {label}", getattr(module, f"{part}_proj_weight")) for part in "qkv"]
    queries, keys, values = (
        by_heads(f"projection {part} of {label}", one, heads) for part, one in zip("qkv", rows, strict=True)
    )
    out: Any = getattr(module, "out_proj", None)
    known = out is not None and values.shape[2] == queries.shape[2]
    bias = getattr(module, "in_proj_bias", None)
    biases = [None, None, None] if bias is None else list(np.split(tensor(f"in_proj_bias of {label}", bias), 3))
    before = _bias_of_queries(biases[0])
    if getattr(module, "bias_k", None) is not None:
        before += ("a learned key (bias_k) beside those of the tokens is not represented.",)
    if getattr(module, "add_zero_attn", False):
        before += ("a token of zeros (add_zero_attn) beside the others is not represented.",)
    if getattr(module, "dropout", 0.0):
        before += (f"dropout {module.dropout:g} of the attention, while it trains, is not represented.",)
    return attention_layer(
        queries,
        keys,
        name=label,
        values=values if known else None,
        output=_output(label, out, heads) if known else None,
        before=before,
        after=_bias_after(biases[2], getattr(out, "bias", None)),
    )


def _linear_maps(module: Any, label: str) -> _Maps | None:
    """Linear maps of queries, keys and values with known names, apart from each other or as one."""
    for three, outs in _LINEAR:
        maps = [getattr(module, name, None) for name in three]
        if all(hasattr(one, "weight") for one in maps[:2]):
            both = [[getattr(one, what, None) for one in maps] for what in ("weight", "bias")]
            return _Maps([f"{name} of {label}" for name in three], both[0], both[1], _first(module, outs))
    for name, after in _STACKED:
        if hasattr(getattr(module, name, None), "weight"):
            where = f"{name} of {label}"
            rows = tensor(where, getattr(module, name).weight)
            # Layers that are called Conv1D have the weights of a linear map transposed.
            rows = rows.T if rows.ndim == 2 and rows.shape[1] == 3 * rows.shape[0] else rows
            if rows.ndim != 2 or len(rows) % 3:
                raise ValueError(f"{where} must have a weight of shape (3 H d, D), got {rows.shape}")
            bias = getattr(getattr(module, name), "bias", None)
            biases = [None] * 3 if bias is None else np.split(tensor(f"bias of {where}", bias), 3)
            return _Maps([where] * 3, np.split(rows, 3), biases, _first(module, after))
    return None


def _first(module: Any, names: Sequence[str]) -> Any:
    return next((getattr(module, name) for name in names if hasattr(getattr(module, name, None), "weight")), None)


def _by_linear_maps(module: Any, name: str, maps: _Maps, heads: int | None) -> AttentionLayer:
    """Read an attention by hand: linear maps, and the number of heads in the module or its configuration."""
    label = name or type(module).__name__
    places = (module, getattr(module, "config", None))
    count = heads or next((getattr(p, one) for p in places for one in _HEADS if hasattr(p, one)), None)
    if count is None:
        raise ValueError(f"heads of {label} must be given: it has none of {', '.join(_HEADS)}; pass heads=1, say")
    count = count_heads(int(count))
    arrays = [tensor(where, weight) for where, weight in zip(maps.names[:2], maps.weights[:2], strict=True)]
    if len(arrays[0]) != len(arrays[1]):
        raise unlike_keys(label, arrays[0].shape, arrays[1].shape)
    queries, keys = (by_heads(where, rows, count) for where, rows in zip(maps.names[:2], arrays, strict=True))
    values, output = None, None
    if maps.weights[2] is not None and maps.out is not None:
        values, output = by_heads(maps.names[2], maps.weights[2], count), _output(label, maps.out, count)
    unseen = (
        f"what {type(module).__name__}.forward does beside softmax(q k^T/sqrt(d)) is not seen: another scale, "
        "a mask, positions, norms of queries and keys.",
    )
    after = _bias_after(maps.biases[2], getattr(maps.out, "bias", None))
    before = _bias_of_queries(maps.biases[0]) + unseen
    return attention_layer(queries, keys, name=label, values=values, output=output, before=before, after=after)


def _output(label: str, out: Any, heads: int) -> Array:
    """Columns of an output projection (D, H v) head by head."""
    weight = tensor(f"output projection of {label}", out.weight)
    if weight.ndim != 2 or weight.shape[1] % heads:
        raise ValueError(f"the output projection of {label} must have shape (D, H v), got {weight.shape}")
    return np.ascontiguousarray(weight.reshape(len(weight), heads, -1).swapaxes(0, 1))


def _bias_of_queries(bias: Any) -> tuple[str, ...]:
    if bias is None or isinstance(bias, bool) or not (numbers := tensor("bias of the queries", bias)).any():
        return ()
    return (f"the bias of the queries, of norm {np.linalg.norm(numbers):.3g}, is not represented.",)


def _bias_after(*biases: Any) -> tuple[str, ...]:
    seen = [bias for bias in biases if bias is not None and not isinstance(bias, bool)]
    if not any(tensor("bias of the values", bias).any() for bias in seen):
        return ()
    return ("biases of values and output projection are not represented.",)
