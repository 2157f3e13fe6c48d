"""The points of a sweep as arrays over its axes."""

import errno
import json
import math
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.files import replace_whole
from .store import DONE, CorruptRecordError, OldRecordError, Record, Store

if TYPE_CHECKING:
    import xarray

__all__ = ["open_sweep", "write_netcdf"]


_ABOUT = {
    "status": "state of the point: done, failed, missing, or corrupt (its record is damaged)",
    "message": "for a point that is done, how the computation ended; for a failed one, why",
    "key": "name of the record in the folder points/",
    "seconds": "time the point took",
    "value_decimal": "value with all digits that were asked for",
    "value": "the number, to float64",
    "error": "absolute error of value",
    "how": "rigorous (proved), estimated (from refinement), or monte-carlo (one standard error)",
    "converged": "whether the accuracy asked for was reached",
}
_FILL = (
    "NaN, false or an empty text where status is not done, and where a result has no such number (an infinite "
    "threshold); NaN beyond the end of matrices smaller than the largest"
)


def open_sweep(out: str | Path) -> "xarray.Dataset":
    """Read all records of a sweep.

    Parameters
    ----------
    out : path
        Folder of the store.

    Returns
    -------
    xarray.Dataset
        Over the axes of the grid, each with its values as coordinate. `status` says of every point whether it is done,
        failed, missing (or of an earlier layout) or corrupt, and `message` why; the other variables hold numbers where
        it is done alone.
        What fits no array (a list of steps, say) is named in the attribute `left_out` and stays in the records.

    Raises
    ------
    ValueError
        There is no sweep in the folder, or its description is damaged.
    """
    import xarray

    store = Store(out)
    there = store.manifest()
    axes: dict[str, list[object]] = there["axes"]
    shape = tuple(map(len, axes.values()))
    size = len(there["keys"])
    states, rows, messages = ["missing"] * size, [dict[str, object]() for _ in range(size)], [""] * size
    seconds = np.full(size, np.nan)
    seen: set[str] = set()
    for k, key in enumerate(there["keys"]):
        try:
            record = store.read(key)
        except OldRecordError as error:
            messages[k] = str(error)
            continue
        except CorruptRecordError as error:
            states[k], messages[k] = "corrupt", str(error)
            continue
        if record is None:
            continue
        states[k], seconds[k] = record["state"], record["seconds"]
        seen.add(json.dumps(record["versions"], sort_keys=True))
        messages[k] = str(record["result"].get("status", "")) if record["state"] == DONE else record["reason"]
        rows[k] = _flat(record["result"])
    variables: dict[str, tuple[tuple[str, ...], NDArray[np.generic], dict[str, str]]] = {}

    def add(name: str, values: NDArray[np.generic]) -> None:
        inner = tuple(f"{name}_{k + 1}" for k in range(values.ndim - 1))
        about = {"description": _ABOUT[name]} if name in _ABOUT else {}
        variables[name] = ((*axes, *inner), values.reshape(*shape, *values.shape[1:]), about)

    add("status", np.array(states))
    add("message", np.array(messages))
    add("key", np.array(there["keys"]))
    add("seconds", seconds)
    left_out = []
    for name in dict.fromkeys(name for row in rows for name in row):
        if name in axes or name in ("status", "message", "key", "seconds"):
            continue
        column = _column([row.get(name) for row in rows])
        if column is None:
            left_out.append(name)
            continue
        add(name, column)
    attributes = {
        "title": f"{there['task']} over {', '.join(axes)}",
        "task": there["task"],
        "fixed": json.dumps(there["fixed"], sort_keys=True),
        "schema": there["schema"],
        "versions": f"[{', '.join(sorted(seen))}]",
        "fill": _FILL,
        "left_out": ", ".join(left_out),
    }
    return xarray.Dataset(variables, {name: _coordinate(values) for name, values in axes.items()}, attributes)


def write_netcdf(dataset: "xarray.Dataset", path: Path) -> None:
    """Write a data set as netCDF 4, whole or not at all.

    Raises
    ------
    OSError
        The disk refuses; what netCDF makes of that (a permission, an error of HDF) does not say why.
    """
    # Bytes of an empty netCDF file: a disk with less is full.
    room = 2**14
    try:
        with replace_whole(path) as part:
            dataset.to_netcdf(part, engine="netcdf4", format="NETCDF4")
    except (OSError, RuntimeError) as error:
        free = shutil.disk_usage(path.parent).free
        why = os.strerror(errno.ENOSPC) if free < room else " ".join(str(error).split())
        message = f"{why}; all records are kept, and the same command makes this file of them where it can be written"
        raise OSError(errno.ENOSPC if free < room else errno.EIO, message, str(path)) from None


def _flat(result: Record) -> dict[str, object]:
    """Give estimates as name, name_error and name_how, and a value in decimals also as a number."""
    flat: dict[str, object] = {}
    for name, value in result.items():
        if isinstance(value, dict) and set(value) == {"value", "error", "how"}:
            flat |= {name: value["value"], f"{name}_error": value["error"], f"{name}_how": value["how"]}
        elif name == "value" and isinstance(value, str):
            flat |= {"value_decimal": value, "value": _number(value)}
        else:
            flat[name] = math.nan if value is None and name in ("value", "error") else value
    return flat


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _coordinate(values: list[object]) -> NDArray[np.generic]:
    """Numbers as they are, all else as text."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return np.array(values)
    return np.array([",".join(map(str, value)) if isinstance(value, list) else str(value) for value in values])


def _column(values: list[Any]) -> NDArray[np.generic] | None:
    """One array of a result's entry over all points, None where it is none; None if it fits no array."""
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return np.array([bool(value) for value in values])
    if all(isinstance(value, str) for value in known):
        return np.array([value or "" for value in values])
    # Integers of an array are below; an array has at most so many entries, of which most would be filling.
    integers, most = 2**63, 2**27
    if all(isinstance(value, int) for value in known) and len(known) == len(values):
        return np.array(values) if all(abs(value) < integers for value in known) else None
    try:
        arrays = [np.asarray(value, dtype=np.float64) for value in known]
    except (TypeError, ValueError, OverflowError):
        return None
    if len({array.ndim for array in arrays}) != 1:
        return None
    inner = tuple(max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True))
    if math.prod(inner) * len(values) > most:
        return None
    out = np.full((len(values), *inner), np.nan)
    at = iter(arrays)
    for k, value in enumerate(values):
        if value is not None:
            array = next(at)
            corner: tuple[int | slice, ...] = (k, *map(slice, array.shape))
            out[corner] = array
    return out
