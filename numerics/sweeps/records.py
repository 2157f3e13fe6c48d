"""What becomes of one point: its result, or why there is none."""

import json
import time
from collections.abc import Generator

from ..core.blas import one_thread
from ..core.results import as_dict, versions
from .grid import Point
from .store import DONE, FAILED, MAX_BYTES, Record
from .tasks import Task

__all__ = ["Stored", "compute", "failure"]

#: Size of the largest result as JSON; the rest of its record is small.
MAX_RESULT = MAX_BYTES // 2
# Points of which the record has just been stored.
Stored = Generator[Point, None, None]


def compute(task: Task, point: Point) -> Record:
    """Compute one point on one thread; whatever goes wrong with it goes into its record.

    Parameters
    ----------
    task : Task
    point : Point
        Its identity may not be that of the task here: another machine may have another version.

    Returns
    -------
    dict
        The record: task, parameters, identity, command, seed, state, reason, result, seconds, versions.
    """
    begin = time.perf_counter()
    try:
        if task.identity(point.parameters) != point.identity:
            raise ValueError(
                "this worker has other numerics, kernels or derivations than the machine that runs the sweep"
            )
        with one_thread():
            result = as_dict(task.run(point.parameters))
        # A result that cannot be stored is a failure of its point.
        size = len(json.dumps(result, allow_nan=False))
        if size > MAX_RESULT:
            raise ValueError(f"the result takes {size} bytes as JSON, and a record holds at most {MAX_RESULT}")
    except Exception as error:
        return failure(task, point, error, begin)
    return _record(task, point, begin, state=DONE, reason=None, result=result)


def failure(task: Task, point: Point, error: BaseException, begin: float) -> Record:
    """Record of a point that failed: the class of the exception and its sentence.

    Parameters
    ----------
    task : Task
    point : Point
    error : exception
    begin : float
        When the point was begun, in seconds of `time.perf_counter`.
    """
    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return _record(task, point, begin, state=FAILED, reason=reason, result={})


def _record(task: Task, point: Point, begin: float, **outcome: object) -> Record:
    return {
        "task": task.name,
        "parameters": point.parameters,
        "identity": point.identity,
        "command": task.command(point.parameters),
        "seed": point.parameters.get("seed"),
        **outcome,
        "seconds": round(time.perf_counter() - begin, 6),
        "versions": versions(),
    }
