"""Links drawn from the grammar, none chosen by hand: sums of few terms of few entries, with or without noise."""

from typing import NamedTuple

import numpy as np

__all__ = ["Drawn", "drawn_link"]

_SMOOTH = ("tanh({})", "erf({})", "sin({})", "exp(-{}**2)", "({})**2", "({})**3", "{}/sqrt(1+{}**2)")
_KINKED = ("Max({}, 0)", "Abs({})", "Min({}, 1)", "Max({}, -1/2)")
_DISCRETE = ("sign({})", "Heaviside({})")
_NOISES = (0.0, 0.0, 0.01, 0.1, 1.0)


class Drawn(NamedTuple):
    """A link with its noise, at a number of samples per dimension."""

    text: str
    noise: float
    alpha: float


def drawn_link(number: int) -> Drawn:
    """The link of this number: at most three entries of h, of up to three indices and two tokens."""
    rng = np.random.default_rng(number)
    entries = _entries(rng)
    kind = rng.choice(["smooth", "kinked", "discrete", "mixed"])
    while True:
        terms = [_term(rng, kind, entries) for _ in range(int(rng.integers(1, 4)))]
        text = " + ".join(terms)
        if all(entry in text for entry in entries):
            break
    noise = 0.0 if kind == "discrete" and rng.random() < 0.7 else float(rng.choice(_NOISES))
    return Drawn(text, noise, round(float(rng.choice([0.3, 0.8, 1.5, 3.0])) * float(rng.uniform(0.8, 1.2)), 3))


def _entries(rng: np.random.Generator) -> list[str]:
    """Names of one to three entries, which are all that there is."""
    indices, tokens = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 1), (1, 3)][int(rng.integers(6))]
    if tokens == 1:
        return [f"h[{p}]" for p in range(1, indices + 1)]
    return [f"h[{p}, {m}]" for p in range(1, indices + 1) for m in range(1, tokens + 1)]


def _term(rng: np.random.Generator, kind: str, entries: list[str]) -> str:
    """A coefficient times a product of functions of combinations of entries."""
    factors = [_factor(rng, kind, entries) for _ in range(int(rng.choice([1, 1, 2])))]
    coefficient = rng.choice(["", "", "2*", "1/2*", "-"]) if kind != "discrete" else ""
    return str(coefficient) + "*".join(factors)


def _factor(rng: np.random.Generator, kind: str, entries: list[str]) -> str:
    inside = _combination(rng, entries)
    choice = {"smooth": _SMOOTH, "kinked": _KINKED, "discrete": _DISCRETE, "mixed": (*_SMOOTH, *_KINKED, *_DISCRETE)}
    if kind != "discrete" and rng.random() < 0.35:
        return f"({inside})"
    return str(rng.choice(choice[kind])).replace("{}", f"({inside})")


def _combination(rng: np.random.Generator, entries: list[str]) -> str:
    """One entry, or a sum or difference or product of two."""
    first, second = rng.choice(entries), rng.choice(entries)
    shape = rng.choice(["{a}", "{a}", "{a} + {b}", "{a} - 2*{b}", "{a}*{b}"])
    if first == second:
        shape = "{a}"
    return str(shape).format(a=first, b=second)
