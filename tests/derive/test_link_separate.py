"""Outputs that say several things at once are written as these, and nothing else is."""

import pytest
import sympy as sp

from attnlimits.derive.links.link import link
from attnlimits.derive.links.parser import parse
from attnlimits.derive.links.separate import separated

# Link, the outputs it is written as, and how they give it back.
SEVERAL = {
    "sign(h[1])*abs(h[2])": (["sign(h[1])", "abs(h[2])"], lambda a, b: a * b),
    "sign(h[1]*h[2])*exp(h[3])": (["sign(h[1]*h[2])", "h[3]"], lambda a, b: a * sp.exp(b)),
    "tanh(sign(h[1])*h[2]**2)": (["sign(h[1])", "h[2]**2"], lambda a, b: sp.tanh(a * b)),
    "sign(h[1]) + 3*sign(h[2])": (["sign(h[1])", "sign(h[2])"], lambda a, b: a + 3 * b),
    "2*sign(h[1]) + tanh(h[2])": (["sign(h[1])", "h[2]"], lambda a, b: 2 * a + sp.tanh(b)),
    "2*sign(h[1])/3 + 1/(1 + exp(h[2]))": (
        ["sign(h[1])", "h[2]"],
        lambda a, b: sp.Rational(2, 3) * a + 1 / (1 + sp.exp(b)),
    ),
}
ONE = [
    "sign(h[1])*h[2]",
    "sign(h[1])*abs(h[1]*h[2])",
    "sign(h[1])*max(0, h[2])",
    "sign(h[1]) + sign(h[2])",
    "sign(h[1])/2 + tanh(h[2])",
    "sign(h[1]) + exp(h[2])",
    "tanh(h[1]) + tanh(h[2])",
    "abs(h[1])*abs(h[2])",
]


@pytest.mark.parametrize("text", SEVERAL)
def test_several(text: str):
    parts, back = SEVERAL[text]
    assert separated(parse(text)[0]) == parse("; ".join(parts))
    # The other way round at a point: the parts give the output.
    point = {sp.Symbol(f"h_{p}_1", real=True): value for p, value in ((1, -0.7), (2, 0.4), (3, 1.3))}
    (whole,), values = parse(text), [part.subs(point) for part in parse("; ".join(parts))]
    assert abs(whole.subs(point) - back(*values)) < 1e-14
    made = link(text)
    assert [part.numbers for part in made.parts] == [(0,), (1,)]


@pytest.mark.parametrize("text", ONE)
def test_one(text: str):
    assert len(separated(parse(text)[0])) == 1


def test_with_noise_nothing_is_separated():
    assert len(link("sign(h[1])*abs(h[2])", noise="0.1").outputs) == 1
    assert len(link("sign(h[1])*abs(h[2])", reduced=False).outputs) == 1
