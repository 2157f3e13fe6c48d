"""What the tests of the numerics share: sources that have been edited."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from attnlimits.numerics.core import identity


@pytest.fixture(scope="module")
def few_means() -> Iterator[None]:
    """Take means of linearised controls over 2^11 points instead of 2^16: a second less for each average near recovery.

    Each randomisation has its own, so that what they are off by is in the standard error.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnlimits.numerics.channel.deep.linearised._LOG2_MANY", 11)
        yield


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], AbstractContextManager[None]]:
    """Return a context in which the source of a module has one more line, on the disk and not in this process."""

    @contextmanager
    def edit(module: str) -> Iterator[None]:
        files = identity._files
        place = files(".".join(module.split(".")[:2]))[module]
        copy = tmp_path / place.name
        copy.write_bytes(place.read_bytes() + b"# edited\n")
        with monkeypatch.context() as patch:
            patch.setattr(identity, "_files", lambda package: files(package) | {module: copy})
            identity._read.cache_clear()
            identity.source_hash.cache_clear()
            yield
        identity._read.cache_clear()
        identity.source_hash.cache_clear()

    return edit
