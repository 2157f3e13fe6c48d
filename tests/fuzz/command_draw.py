"""Choices of a command line at random: flags with their values, files, and what is hostile."""

import random

from hostile_files import FILES

__all__ = ["HOSTILE", "Draw", "Words"]

Words = list[str]

#: Values that no flag, or few, can take.
HOSTILE = (
    "nan -nan inf -inf 1e400 -1e400 -1 0 -0.0 1e-300 1e-400 1e308 1e999999999 1e-999999999 2147483648 "
    "-2147483649 9223372036854775808 1152921504606846976 0x10 1_0 1/3 1/0 True None [] {} -- ٣ ½ h[1] é "
    ". / ~nosuchuser/x /dev/null a=b %s %(default)s 1e5000 0.1e1 1,2 ,"
).split()
HOSTILE += [
    "",
    " ",
    "1 ",
    "\t",
    "a\nb",
    "9" * 10_000,
    "1" * 400,
    str(10**30),
    str(2**200),
    "[" * 3000,
    "\udcff",
    "x" * 300,
]


class Draw:
    """Choices of one line."""

    def __init__(self, seed: int, index: int) -> None:
        self.random = random.Random(f"{seed}/{index}")

    def of(self, *values: object) -> str:
        return str(self.random.choice(values))

    def sometimes(self, share: float) -> bool:
        return self.random.random() < share

    def flags(self, **values: tuple[object, ...]) -> Words:
        """Each flag with one of its values; None leaves it out, True gives it alone."""
        found: Words = []
        for name, choices in values.items():
            value = self.random.choice(choices)
            if value is None or value is False:
                continue
            flag = "--" + name.replace("_", "-")
            found += [flag] if value is True else [flag, str(value)]
        return found

    def number(self) -> str:
        return f"{10 ** self.random.uniform(-2, 1):.3g}"

    def path(self, *good: str) -> str:
        """Usually a file that is right, otherwise any."""
        if self.sometimes(0.7):
            return self.of(*good)
        kind = good[0].rpartition(".")[2]
        return self.of(*([name for name in FILES if name.endswith(kind)] if self.sometimes(0.6) else FILES))

    def out(self, name: str) -> str:
        if self.sometimes(0.6):
            return name
        return self.of(
            "missing/folder/" + name, "/dev/full", ".", "/proc/x", "", "~nosuchuser/" + name, "x" * 300, name
        )
