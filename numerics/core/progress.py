"""A progress bar on stderr."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Bar", "bars_drawn", "close_bars"]


# Seconds before a bar is drawn: what is soon done needs none.
_PATIENCE = 1.5


class Bar:
    """A progress bar that is told how far it is, and appears only for what takes a while.

    Best used as ``with Bar(..) as bar``, which ends its line also where the work fails.

    Parameters
    ----------
    title : str
    show : bool, keyword-only
        False keeps it silent.
    """

    def __init__(self, title: str, *, show: bool) -> None:
        self._title, self._show = title, show
        self._bar: tqdm | None = None
        self._begin = time.monotonic()

    def to(self, done: int, total: int) -> None:
        """Move to `done` of `total`."""
        if self._bar is None:
            if time.monotonic() - self._begin < _PATIENCE:
                return
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=self._title, disable=not self._show, file=sys.stderr)
            if self._show:
                _open.append(self)
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
        if self in _open:
            _open.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


# Bars on the screen: a message printed now would stand on the line of the last one.
_open: list[Bar] = []


def bars_drawn() -> bool:
    """Whether a bar is on the screen."""
    return bool(_open)


def close_bars() -> None:
    """End the lines of all bars, before a message."""
    for bar in _open[::-1]:
        bar.close()
