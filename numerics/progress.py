"""A progress bar on stderr."""

import sys
from typing import Any

__all__ = ["Bar"]


class Bar:
    """A progress bar that is told how far it is.

    Parameters
    ----------
    title : str
    show : bool, keyword-only
        False keeps it silent.
    """

    def __init__(self, title: str, *, show: bool) -> None:
        self._title, self._show = title, show
        self._bar: Any = None

    def to(self, done: int, total: int) -> None:
        """Move to `done` of `total`."""
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=self._title, disable=not self._show, file=sys.stderr)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
