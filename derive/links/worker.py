"""A process that derives links, one after the other: ``python -P -m attnlimits.derive.links.worker``.

It reads one JSON object a line, ``{"text", "tokens", "indices", "noise", "axes", "reduced", "seconds"}``, and answers
each with one, ``{"source": ..}`` or ``{"refused": message}`` or ``{"failed": message}``; it ends with its input.
Exact algebra can take for ever, or all memory, and does not look at the clock: where the system has limits of processor
time and memory the process sets them itself, and ends by them; whoever started it ends it anywhere.
"""

import contextlib
import json
import math
import os
import signal
import sys
from collections.abc import Iterator
from typing import IO, TypedDict

__all__ = ["Request", "answer", "main"]

#: Bytes of address space that a derivation may take.
MEMORY = 3 * 2**29


class Request(TypedDict):
    """What a line asks for: the arguments of `link`, the axes of `rotated` or none, and seconds of processor time."""

    text: str
    tokens: int | None
    indices: int | None
    noise: str
    axes: list[list[int]]
    reduced: bool
    seconds: float


def answer(request: Request) -> dict[str, str]:
    """Derive one link.

    Parameters
    ----------
    request : Request

    Returns
    -------
    dict
        ``source`` of the kernel; or ``refused``, what the link lacks; or ``failed``, why its derivation did not end.
    """
    try:
        from ..emit.link_source import render
        from .link import link, rotated

        shape = request["tokens"], request["indices"]
        made = link(request["text"], *shape, request["noise"], reduced=request["reduced"])
        if request["axes"]:
            made = rotated(made, request["axes"])
        source = render(made)
        compile(source, "kernel", "exec")
    except RecursionError:
        return {
            "refused": "link: it is nested too deeply for exact algebra; write it with fewer functions of functions"
        }
    except MemoryError:
        return {"failed": f"the derivation of the link took {MEMORY / 2**30:.2g} GiB of memory; write a simpler link"}
    except ValueError as error:
        return {"refused": str(error)}
    except Exception as error:
        return {
            "failed": f"the link cannot be derived ({type(error).__name__}: {error}); write it otherwise, with fewer "
            "functions of functions or smaller numbers"
        }
    return {"source": source}


def main() -> None:
    """Answer requests until the input ends."""
    # Ctrl-C reaches the whole group of processes; the one that asks ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _replies() as replies:
        for line in sys.stdin:
            request = json.loads(line)
            _limit(request["seconds"])
            replies.write(json.dumps(answer(request)) + "\n")
            replies.flush()


@contextlib.contextmanager
def _replies() -> Iterator[IO[str]]:
    """The stream of the answers; what is printed by the way goes elsewhere."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)
        yield replies


def _limit(seconds: float) -> None:
    """Bound the memory, and the processor time of the next answer."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    time = math.ceil(used.ru_utime + used.ru_stime + seconds)
    for kind, most in ((resource.RLIMIT_AS, MEMORY), (resource.RLIMIT_CPU, time), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


if __name__ == "__main__":
    main()
