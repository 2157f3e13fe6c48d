"""Numbers out of any sensible range are refused by one table: of functions by the argument, of verbs by the flag."""

import argparse

import pytest

import attnlimits as al
from attnlimits.numerics.cli import command
from attnlimits.numerics.core.validation import RANGES, within

NET, LINK = al.Network(1, 2), al.Link("h[1]**2")


@pytest.mark.parametrize(
    "call",
    [
        lambda x: al.Network(skip=x),
        lambda x: al.Network(beta=x),
        lambda x: al.Network(1, noise=x),
        lambda x: al.Link("h[1]", noise=x).kernel,
        lambda x: al.Link("h[1]", noise=f"{x}/7").kernel,
        lambda x: al.evolve(NET, x),
        lambda x: al.evolve(LINK, x),
        lambda x: al.curve(NET, [0.1, x]),
        lambda x: al.free_entropy(NET, x),
        lambda x: al.make_data(NET, al.teacher(NET, 4, rng=0), x),
        lambda x: al.aim.evolve(x, 0.5, al.aim.channel("softmax")),
        lambda x: al.committee.committee_evolution(3, x),
    ],
)
def test_functions_refuse_them_with_the_range(call):
    with pytest.raises(ValueError, match=r"^(alpha|skip|beta|noise) must be in \[0, 1e\+12\], got 1(\.4\d*)?e\+"):
        call(1e300)


def numeric_flags():
    """Flags with a range, of all verbs."""

    def walk(parser, words):
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, sub in action.choices.items():
                    yield from walk(sub, [*words, name])
            elif action.dest in RANGES and action.type in (int, float):
                yield [*words, action.option_strings[0]], action.type

    yield from walk(command.parser(), [])


@pytest.mark.parametrize(
    ("words", "kind"), list(numeric_flags()), ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_verbs_refuse_them_with_the_flag(words, kind, attnlimits):
    """Before anything else is looked at, or loaded."""
    said = attnlimits(" ".join([*words, "1e300" if kind is float else "9" * 30]))
    assert said.status == 2 and said.out == ""
    assert f"{words[-1]} must be in [0, 1e+" in said.err and len(said.lines_of_error) == 1


def test_both_ends_are_in_the_range():
    for name, (least, most) in RANGES.items():
        within(name, least)
        within(name, most)
        with pytest.raises(ValueError, match="must be in"):
            within(name, most * (1 + 1e-9))
    within("no name of a range", 1e300)
