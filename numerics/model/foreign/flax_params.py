"""Attention layers of Flax, linen parameters or nnx modules, by their names alone: Flax is not imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.typing import Array
from .attention import AttentionLayer, attention_layer, count_heads, tensor

__all__ = ["flax_layers"]


def flax_layers(params: Any, heads: int | None = None) -> list[AttentionLayer]:
    """Attention layers of a tree of parameters, in the order of their paths, where numbers count as such.

    Parameters
    ----------
    params : mapping, nnx.Module or nnx.State
        Anywhere in it, `query` and `key` with a `kernel` of shape (D, H, d) each, as MultiHeadDotProductAttention of
        linen and MultiHeadAttention of nnx have them; of Dense layers (D, H d), with `heads`.
    heads : int, optional
        H of kernels of shape (D, H d).

    Raises
    ------
    ValueError
        If there is none, or one cannot be read; the message names it.
    """
    wanted = None if heads is None else count_heads(heads)
    layers: list[AttentionLayer] = []
    # What stands before the first layer, and after each.
    beside: list[list[str]] = [[]]
    for path, node in _walk(_tree(params), ()):
        if _is_attention(node):
            layers.append(_layer("/".join(path) or "params", node, wanted))
            beside.append([])
        else:
            beside[-1].append("/".join(path))
    if not layers:
        names = ", ".join(beside[0][:5]) or "nothing"
        raise ValueError(
            f"params must hold query and key with a kernel of shape (D, H, d), got {type(params).__name__} with "
            f"{names}; al.from_weights takes the arrays of any layer"
        )
    layers = [replace(one, after=(*one.after, *_left_out(o))) for one, o in zip(layers, beside[1:], strict=True)]
    layers[0] = replace(layers[0], before=(*_left_out(beside[0]), *layers[0].before))
    return layers


def _left_out(paths: list[str]) -> tuple[str, ...]:
    return (f"not represented: {', '.join(paths)}.",) if paths else ()


def _tree(params: Any) -> Any:
    """Nested mappings: of a module of nnx those of its parameters, by the library that it comes from."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(params, nnx.Module):
        params = nnx.state(params, nnx.Param)
    if nnx is not None and isinstance(params, nnx.State):
        params = nnx.to_pure_dict(params)
    return params


def _natural(name: str) -> list[tuple[int, str]]:
    """Key of a path's part, by which layers_10 comes after layers_9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _is_attention(node: Mapping[Any, Any]) -> bool:
    return all(isinstance(node.get(one), Mapping) and "kernel" in node[one] for one in ("query", "key"))


def _walk(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[Any, Any]]]:
    """Paths of attention layers and of other nodes that hold arrays."""
    if not isinstance(node, Mapping):
        return
    if _is_attention(node):
        yield path, node
        return
    if any(not isinstance(child, Mapping) for child in node.values()):
        yield path, node
    for name in sorted(node, key=lambda one: _natural(str(one))):
        yield from _walk(node[name], (*path, str(name)))


def _kernel(name: str, part: Any, heads: int | None) -> Array:
    """Kernel (D, H, d) as rows of every head, shape (H, d, D)."""
    kernel = tensor(f"kernel of {name}", part["kernel"])
    if kernel.ndim == 2:
        if heads is None or kernel.shape[1] % heads:
            raise ValueError(
                f"kernel of {name} has shape {kernel.shape}: heads must be given, and divide {kernel.shape[1]}; "
                f"got {heads}"
            )
        kernel = kernel.reshape(len(kernel), heads, -1)
    if kernel.ndim != 3 or not kernel.size:
        raise ValueError(
            f"kernel of {name} must have shape (D, H, d), or (D, H d) with heads, got {kernel.shape}; of scanned "
            "layers give one at a time"
        )
    return np.ascontiguousarray(kernel.transpose(1, 2, 0))


def _output(name: str, part: Any, heads: int) -> Array:
    """Kernel (H, v, D) of the output projection, or (H v, D), as (H, D, v)."""
    kernel = tensor(f"kernel of {name}", part["kernel"])
    if kernel.ndim not in (2, 3) or len(kernel) % heads:
        raise ValueError(f"kernel of {name} must have shape (H, v, D) or (H v, D), got {kernel.shape}")
    return np.ascontiguousarray(kernel.reshape(heads, -1, kernel.shape[-1]).swapaxes(1, 2))


def _bias(part: Any) -> float:
    """Norm of a bias; zero if there is none."""
    found = part.get("bias") if isinstance(part, Mapping) else None
    return 0.0 if found is None else float(np.linalg.norm(tensor("bias", found)))


def _layer(name: str, node: Mapping[Any, Any], heads: int | None) -> AttentionLayer:
    queries, keys = (_kernel(f"{name}/{part}", node[part], heads) for part in ("query", "key"))
    values = output = None
    if all(isinstance(node.get(part), Mapping) and "kernel" in node[part] for part in ("value", "out")):
        values = _kernel(f"{name}/value", node["value"], heads)
        output = _output(f"{name}/out", node["out"], len(queries))
    before = []
    if shift := _bias(node["query"]):
        before.append(f"the bias of the queries, of norm {shift:.3g}, is not represented.")
    if any(f"{part}_ln" in node for part in ("query", "key")):
        before.append("the norms of queries and keys (normalize_qk) are not represented.")
    after = []
    if _bias(node.get("value")) or _bias(node.get("out")):
        after.append("biases of values and output projection are not represented.")
    return attention_layer(
        queries, keys, name=name, values=values, output=output, before=tuple(before), after=tuple(after)
    )
