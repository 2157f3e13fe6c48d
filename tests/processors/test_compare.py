"""The comparison of processors: it sees what differs, and nothing where errors cover it."""

import json

import calls
import compare
import pytest
from emulated import PROCESSORS, lacking


def made(decision="exit 0; .converged: True", **numbers):
    return {"decision": decision, "numbers": numbers}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (made(q=[0.5, 0.01]), made(q=[0.519, 0.01]), None),
        (made(q=["0.1854778406071532", 1e-16]), made(q=["0.1854778406071533", 1e-16]), None),
        (made(q=["0.1854778406071530", 1e-16]), made(q=["0.1854778406071533", 1e-16]), "q: 0.1854778406071530"),
        (made(q=["inf", 0.0]), made(q=["inf", 0.0]), None),
        (made(q=["inf", 0.0]), made(q=[1.0, 9e9]), "q: inf"),
        (made(q=[1.0, 0.0]), made(p=[1.0, 0.0]), "numbers: ['p', 'q'] of one alone"),
        (made(), made("exit 1; .converged: True"), "decisions: 'exit 0' and 'exit 1'"),
        (made(), made("exit 0"), "decisions: 2 and 1 of them"),
    ],
)
def test_what_differs_is_said(first, second, said):
    found = compare.differences(first, second)
    assert found == [] if said is None else found[0].startswith(said)
    assert bool(compare.differences(second, first)) is bool(found)


def test_a_record_holds_what_a_command_decided_and_found():
    found = calls.run('evolve --link "h[1]" --alpha 0.5 --noise 0.5')
    assert found["decision"].startswith("exit 0; ") and ".converged: True" in found["decision"]
    value, error = found["numbers"][".overlap[0][0]"]
    assert 0 < value < 1 and 0 <= error < 1e-9
    assert calls.run("evolve --alpha -1") == {"decision": "exit 2", "numbers": {}}


def test_forty_commands_reach_every_verb():
    lines = calls.cases()
    assert len(lines) == len(set(lines)) == 40
    for words in ("threshold", "evolve", "free-energy", "aim evolve", "aim threshold", "aim free-energy", "committee"):
        assert any(line.startswith(words) for line in lines)


@pytest.mark.slow
def test_processors_are_compared_and_a_difference_is_found(monkeypatch, capsys):
    if lacking(PROCESSORS["sandybridge"]):
        pytest.skip(lacking(PROCESSORS["sandybridge"]))
    monkeypatch.setattr(compare, "COMPARED", ("prescott", "sandybridge"))
    assert compare.main(["--only", "calls", "committee --layers 3", "--jobs", "1"]) == 0
    assert "1 cases on 2 processors" in capsys.readouterr().out
    usual = compare.computed

    def changed(processor, module, words):
        text = json.dumps(usual(processor, module, words))
        return json.loads(text.replace("exit 0", "exit 1") if processor == "prescott" else text)

    monkeypatch.setattr(compare, "computed", changed)
    assert compare.main(["--only", "calls", "committee --layers 3", "--jobs", "1"]) == 1
    assert "sandybridge and prescott: decisions: " in capsys.readouterr().out
