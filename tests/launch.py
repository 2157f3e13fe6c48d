"""Start another program with fewer rights, or where an interrupt reaches it: a small program that becomes the other.

`preexec_fn` of `subprocess` does as much between fork and exec, where a process of several threads may wait for ever
for a lock that one of them held.
"""

import ctypes
import os
import signal
import sys

# Capabilities by which the superuser reads and writes whatever the mode of a file says (capabilities(7)), and the
# request of prctl(2) that takes one away.
_DAC_OVERRIDE, _DAC_READ_SEARCH, _PR_CAPBSET_DROP = 1, 2, 24

#: Exit status where the rights of the superuser cannot be taken away.
REFUSED = 111

_HERE = (sys.executable, "-I", "-S", os.path.abspath(__file__))
#: What precedes a command that the modes of files bind, also where the superuser runs it.
AS_OTHERS = (*_HERE, "as-others")
#: What precedes a command that an interrupt ends: a background job of a shell ignores it, and so would its children.
INTERRUPTIBLE = (*_HERE, "interruptible")


def _without_rights() -> None:
    if os.name != "posix" or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            print(os.strerror(ctypes.get_errno()), file=sys.stderr)
            sys.exit(REFUSED)


if __name__ == "__main__":
    how, *command = sys.argv[1:]
    if how == "as-others":
        _without_rights()
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(command[0], command)
