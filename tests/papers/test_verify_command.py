"""`attnlimits verify`: every numbered equation of the paper and every erratum is accounted for."""

import json
from collections import Counter

import pytest

from attnlimits.derive import registry
from attnlimits.numerics import cli

PAPER, NUMBERS = "troiani2025", 187
KINDS = {"proved", "checked", "definition", "prose"}


@pytest.mark.slow
def test_the_command_accounts_for_every_number(capsys, monkeypatch):
    """One run of all checks: what the command reports, against what ran."""
    ran = []
    run = registry.run
    monkeypatch.setattr(registry, "run", lambda *a, **b: ran.extend(run(*a, **b)) or list(ran))
    status = cli.main(["verify", "--json"])
    out = capsys.readouterr().out
    report = json.loads(out)
    assert status == 0
    assert report["failed"] == []
    assert report["ok"] is True
    assert report["total"] == NUMBERS
    assert set(report["counts"]) == KINDS
    assert sum(report["counts"].values()) == NUMBERS
    assert report["passed"] == report["ran"] == report["counts"]["proved"] + report["counts"]["checked"]
    assert report["status"] == "all checks passed"
    errata = registry.load_errata(PAPER)
    assert report["errata"] == {"total": len(errata), "passed": len(errata)}

    equations = [result for result in ran if result.status != registry.ERRATUM]
    assert [result.id for result in equations] == list(range(1, NUMBERS + 1))
    assert [result.id for result in ran[NUMBERS:]] == [entry.id for entry in errata]
    assert Counter(result.status for result in equations) == Counter(
        {kind: count for kind, count in report["counts"].items() if count}
    )
    for result in ran:
        # A check ran and passed, or a sentence says why there is none.
        assert result.ok is (None if result.status in ("definition", "prose") else True), result
        assert len(result.message) > 10, result
    assert [(entry["id"], entry["status"]) for entry in report["entries"]] == [(r.id, r.status) for r in ran]
    assert "not yet" not in (out + registry.table(ran)).lower()


def test_the_registry_accounts_for_every_number():
    """The same counts without running a check: what each entry claims."""
    entries = registry.load(PAPER)
    claimed = Counter(entry.status for entry in entries)
    assert set(claimed) <= KINDS
    assert sum(claimed.values()) == NUMBERS
    assert sum(entry.check is not None for entry in entries) == claimed["proved"] + claimed["checked"]
    # Without checks an entry is not judged, so a run of those alone is what the command would say of them.
    rest = registry.summary(registry.run_entries([entry for entry in entries if entry.check is None], paper=PAPER))
    assert rest["ran"] == 0
    assert rest["total"] == NUMBERS - claimed["proved"] - claimed["checked"]
    for entry in (*entries, *registry.load_errata(PAPER)):
        said = " ".join(str(value) for value in vars(entry).values()).lower()
        assert "not yet" not in said and "todo" not in said, entry.id


def test_every_erratum_has_evidence_of_its_own():
    errata = registry.load_errata(PAPER)
    assert errata
    for entry in errata:
        assert len(entry.evidence.split()) > 5, f"{entry.id}: evidence is a sentence"
        assert entry.published != entry.correct, entry.id
    for field in ("evidence", "check"):
        values = [getattr(entry, field) for entry in errata]
        assert len(set(values)) == len(values), f"two errata share their {field}"
