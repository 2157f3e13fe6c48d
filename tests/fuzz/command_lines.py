"""Command lines at random: line k of a seed is always the same one.

Four lines in five are built from the grammar of a verb, with plausible and extreme values; the others have a hostile
value, flag or file among them. What legitimately takes minutes (many digits of deep models, large samples) is not
drawn.
"""

import signal
from dataclasses import dataclass

from command_draw import HOSTILE, Draw, Words
from command_valid import VALID
from command_verbs import VERBS

__all__ = ["Line", "line"]

#: Flags of how often something is done.
REPEATS = ("--max-iter", "--epochs", "--seeds", "--starts", "--reuse", "--max-nodes", "--limit", "--replicas")


# Shares of lines that a verb serves, and of those that get a signal.
_VALID, _INTERRUPTED = 0.8, 0.1


@dataclass(frozen=True)
class Line:
    """A command line; the seconds after which it gets a signal, if it does, and which; whether it should be served."""

    words: tuple[str, ...]
    interrupt: float | None = None
    number: int = signal.SIGINT
    valid: bool = False


def line(seed: int, index: int) -> Line:
    """Return line `index` of a seed."""
    draw = Draw(seed, index)
    valid = draw.sometimes(_VALID)
    verbs, weights = zip(*(VALID if valid else VERBS).items(), strict=True)
    words = draw.random.choices(verbs, weights)[0](draw)
    if not valid and draw.sometimes(0.4):
        words = _spoiled(draw, words)
    if draw.sometimes(0.5):
        words.insert(len(words) if draw.sometimes(0.7) else min(1, len(words)), "--json")
    interrupt = draw.random.uniform(0.2, 3.0) if draw.sometimes(_INTERRUPTED) else None
    number = draw.random.choice((signal.SIGINT, signal.SIGTERM))
    return Line(tuple(word.replace("\0", "") for word in words), interrupt, number, valid)


def _hostile(draw: Draw, flag: str) -> str:
    """Any value; but what is asked to be done 2147483648 times, and may be, is not a fault where it takes long."""
    value = draw.of(*HOSTILE)
    return draw.of(0, -1, "nan", "") if flag in REPEATS and value.isdecimal() else value


def _spoiled(draw: Draw, words: Words) -> Words:
    """Change one or two words: a hostile value, a word too many or too few, a flag twice or cut short."""
    words = list(words)
    for _ in range(draw.random.choice((1, 1, 2))):
        at = draw.random.randrange(len(words)) if words else 0
        values = [k + 1 for k, w in enumerate(words[:-1]) if w.startswith("--") and not words[k + 1].startswith("--")]
        kind = draw.random.random()
        if values and kind < 0.6:
            k = draw.random.choice(values)
            words[k] = _hostile(draw, words[k - 1])
        elif values and kind < 0.7:
            k = draw.random.choice(values)
            words[k - 1 : k + 1] = [f"{words[k - 1]}={_hostile(draw, words[k - 1])}"]
        elif kind < 0.78 and words:
            del words[at]
        elif kind < 0.86 and words:
            words.insert(at, words[at])
        elif kind < 0.93 and words:
            words[at] = words[at][: max(3, len(words[at]) - 2)]
        else:
            words.insert(at, draw.of("--frobnicate", "-x", "--help", "-h", "--", *HOSTILE))
    return words
