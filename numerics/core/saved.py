"""Results on disk: one JSON file that says which class it is of, with every number to its last digit.

A file is read without executing anything that it holds: classes are those of the results themselves, by name.
"""

import json
import math
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

import numpy as np

from .files import write_json
from .typing import JSON

__all__ = ["load", "save"]

SCHEMA = 1
_FORMAT = "attnlimits result"
_PACKAGE = f"{__name__.partition('.numerics.')[0]}.numerics."
#: Where the classes of results are; a file names the class alone, or with its field, so that a module may move.
_PLACES = {
    "aim.AMPResult": "aim.results",
    "aim.Denoised": "aim.rie",
    "aim.DescentResult": "aim.results",
    "aim.EvolutionPoint": "aim.results",
    "aim.PreciseValue": "aim.precise",
    "aim.Threshold": "aim.thresholds",
    "committee.CommitteeState": "committee.evolution",
    "committee.CommitteeThreshold": "committee.thresholds",
    "CurvePoint": "fixed_point.continuation.records",
    "CurveResult": "fixed_point.continuation.records",
    "DenoiserResult": "core.results",
    "DescentResult": "learning.descent.results",
    "Enclosure": "thresholds.enclosure.threshold",
    "Estimate": "core.results",
    "EvolutionResult": "core.results",
    "FlowResult": "thresholds.flow",
    "free_energy.BayesOptimal": "free_energy.theorem",
    "free_energy.StationaryPoint": "free_energy.points",
    "free_energy.Transition": "free_energy.thresholds",
    "free_energy.Transitions": "free_energy.thresholds",
    "GAMPResult": "learning.gamp.results",
    "Gap": "fixed_point.continuation.records",
    "Inputs": "learning.inputs",
    "Jump": "fixed_point.continuation.records",
    "LinkStaircase": "thresholds.link.staircase",
    "LinkThreshold": "thresholds.link.result",
    "multihead.Attempt": "multihead.sculpt.results",
    "multihead.Body": "multihead.sculpt.body",
    "multihead.Box": "multihead.sculpt.programs",
    "multihead.Certificates": "multihead.certificates",
    "multihead.Certification": "multihead.sculpt.certification",
    "multihead.Degeneracies": "multihead.equivalences",
    "multihead.Doubt": "multihead.certificates",
    "multihead.ExactRisk": "multihead.risk",
    "multihead.HardnessPoint": "multihead.hardness",
    "multihead.HardnessResult": "multihead.hardness",
    "multihead.HeadError": "multihead.head_errors",
    "multihead.HeadsEvidence": "multihead.evidence",
    "multihead.Hull": "multihead.sculpt.hull",
    "multihead.MarginFit": "multihead.sculpt.margin",
    "multihead.MultiheadFit": "multihead.results",
    "multihead.Net": "multihead.sculpt.net",
    "multihead.Round": "multihead.sculpt.certification",
    "multihead.Rung": "multihead.evidence",
    "multihead.SculptResult": "multihead.sculpt.results",
    "multihead.SqCorrelations": "multihead.parity",
    "Onset": "fixed_point.continuation.records",
    "Origin": "core.results",
    "PreciseDenoiserResult": "posterior.precise.denoiser",
    "ThresholdResult": "core.results",
}
_NAMES = {f"{_PACKAGE}{module}.{name.rpartition('.')[2]}": name for name, module in _PLACES.items()}
# In the place of what JSON has no type for.
_CLASS, _ARRAY, _TUPLE, _NUMBER, _MAPPING, _BINARY = "class", "array", "tuple", "number", "mapping", "binary"
_KINDS = "biuf"


def save(result: object, path: str | Path) -> None:
    """Write a result whole or not at all.

    Parameters
    ----------
    result : dataclass
        Of arrays, numbers, texts, and such results again.
    path : str or Path

    Raises
    ------
    TypeError
        Something in it has no place in a file, which is named.
    OSError
        The file cannot be written.
    """
    record = {"format": _FORMAT, "schema": SCHEMA, "result": _encoded(result, type(result).__name__)}
    write_json(Path(path), record, allow_nan=False)


def load(path: str | Path) -> object:
    """Read a result that `save` wrote: equal in every field, and of the same class.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    ValueError
        The file is no result, is of another layout, or was changed into something that none can be.
    OSError
        The file cannot be read.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise ValueError("it was not written by `save` of a result")
        if record.get("schema") != SCHEMA:
            raise ValueError(f"its layout is {record.get('schema')!r}, and this version reads {SCHEMA}")
        return _decoded(record["result"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a result that can be read: {error}") from None


def _encoded(value: object, where: str) -> JSON:
    if is_dataclass(value) and not isinstance(value, type):
        name = _NAMES.get(f"{type(value).__module__}.{type(value).__name__}")
        if name is None:
            raise TypeError(f"{where} is a {type(value).__name__}, which is no result that has a place in a file")
        inner = {f.name: _encoded(getattr(value, f.name), f"{where}.{f.name}") for f in fields(value)}
        return {_CLASS: name, "fields": inner}
    binary = getattr(value, "man_exp", None)  # of a number of mpmath, which is not imported for its name
    if binary is not None:
        return {_BINARY: [int(binary[0]) * (-1 if str(value).startswith("-") else 1), int(binary[1])]}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS and not all(hasattr(x, "man_exp") for x in value.flat):
            raise TypeError(f"{where} is an array of {value.dtype}, and only numbers have a place in a file")
        flat = [_encoded(x, where) for x in value.ravel().tolist()]
        return {_ARRAY: flat, "shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _encoded(value.item(), where)
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {_TUPLE: [_encoded(x, where) for x in value]}
    if isinstance(value, list):
        return [_encoded(x, where) for x in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {_MAPPING: {key: _encoded(x, f"{where}[{key!r}]") for key, x in value.items()}}
    raise TypeError(f"{where} is a {type(value).__name__}, which has no place in a file")


def _decoded(value: JSON) -> object:
    if isinstance(value, list):
        return [_decoded(x) for x in value]
    if not isinstance(value, dict):
        return value
    if _CLASS in value:
        kept = cast("dict[str, JSON]", value["fields"])
        return _class_of(str(value[_CLASS]))(**{name: _decoded(x) for name, x in kept.items()})
    if _ARRAY in value:
        dtype, entries = np.dtype(str(value["dtype"])), cast("list[JSON]", value[_ARRAY])
        if dtype.kind not in _KINDS and not all(isinstance(x, dict) and _BINARY in x for x in entries):
            raise ValueError(f"an array of {dtype} is none of numbers")
        flat = [_decoded(x) for x in entries]
        return np.array(flat, dtype=dtype).reshape(cast("list[int]", value["shape"]))
    if _BINARY in value:
        mantissa, exponent = cast("list[int]", value[_BINARY])
        context = import_module("mpmath.ctx_mp").MPContext()
        context.prec = max(53, mantissa.bit_length())
        return context.ldexp(mantissa, exponent)
    if _TUPLE in value:
        return tuple(_decoded(x) for x in cast("list[JSON]", value[_TUPLE]))
    if _NUMBER in value:
        return float(str(value[_NUMBER]))
    return {key: _decoded(x) for key, x in cast("dict[str, JSON]", value[_MAPPING]).items()}


def _class_of(name: str) -> type:
    """Return the class of results of this name."""
    if name not in _PLACES:
        raise ValueError(f"{name!r} is no class of results")
    return cast("type", getattr(import_module(f"{_PACKAGE}{_PLACES[name]}"), name.rpartition(".")[2]))
