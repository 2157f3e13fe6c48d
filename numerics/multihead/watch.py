"""Progress of a long fit, and whether it ends with what it has when it is interrupted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..core.shown import few_lines

__all__ = ["Watch"]


@few_lines
class Watch:
    """What a fit reports to while it runs.

    Parameters
    ----------
    progress : callable, optional
        Called with the number of descents that have ended and the number that may be needed.
    partial : bool
        An interrupt ends the search, and the best layer so far is the result; False passes it on.

    Attributes
    ----------
    interrupted : bool
    """

    def __init__(self, progress: Callable[[int, int], None] | None = None, *, partial: bool = False) -> None:
        self._progress, self._partial = progress, partial
        self._done = self._total = 0
        self.interrupted = False

    def expect(self, descents: int) -> None:
        """So many descents more may be needed."""
        self._total = self._done + descents

    def done(self) -> None:
        """A descent has ended."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, max(self._done, self._total))

    @contextmanager
    def work(self, *, kept: bool) -> Iterator[None]:
        """Run what may be interrupted; `kept` states that there is a layer to return by now."""
        try:
            yield
        except KeyboardInterrupt:
            if not (self._partial and kept):
                raise
            self.interrupted = True
