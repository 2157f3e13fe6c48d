"""Wait for what another process is to reach, with an end: a test that waits for ever tells nothing."""

import subprocess
import time
from collections.abc import Callable

# Seconds; what tests wait for takes a few, and a busy machine ten times as long.
_LONGEST = 200.0


def wait_for(reached: Callable[[], bool], process: subprocess.Popen, pause: float = 0.02) -> None:
    """Return once it is reached or the process has ended; kill the process and raise TimeoutError if neither comes."""
    end = time.monotonic() + _LONGEST
    while process.poll() is None and not reached():
        if time.monotonic() > end:
            process.kill()
            raise TimeoutError(f"{process.args} has not come so far in {_LONGEST:g} s")
        time.sleep(pause)
