"""`attnlimits verify`: every numbered equation of every paper and every erratum is accounted for."""

import json
from collections import Counter

import pytest

from attnlimits.derive import registry
from attnlimits.numerics.cli import main as cli

PAPERS = {"troiani2025": 187, "boncoraglio2025": 59, "chen2024": 43}
KINDS = {"proved", "checked", "definition", "prose"}


def test_these_are_all_papers():
    assert registry.papers() == tuple(sorted(PAPERS))


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_the_command_accounts_for_every_number(capsys, monkeypatch, paper):
    """One run of all checks: what the command reports, against what ran."""
    ran = []
    run = registry.run
    monkeypatch.setattr(registry, "run", lambda *a, **b: ran.extend(run(*a, **b)) or list(ran))
    status = cli.main(["verify", "--paper", paper, "--json"])
    out = capsys.readouterr().out
    report = json.loads(out)
    assert status == 0
    assert report["failed"] == []
    assert report["ok"] is True
    numbers = PAPERS[paper]
    assert report["total"] == numbers
    assert set(report["counts"]) == KINDS
    assert sum(report["counts"].values()) == numbers
    assert report["passed"] == report["ran"] == report["counts"]["proved"] + report["counts"]["checked"]
    assert report["status"] == "all checks passed"
    errata = registry.load_errata(paper)
    assert report["errata"] == {"total": len(errata), "passed": len(errata)}

    equations = [result for result in ran if result.status != registry.ERRATUM]
    assert [result.id for result in equations] == list(range(1, numbers + 1))
    assert [result.id for result in ran[numbers:]] == [entry.id for entry in errata]
    assert Counter(result.status for result in equations) == Counter(
        {kind: count for kind, count in report["counts"].items() if count}
    )
    for result in ran:
        # A check ran and passed, or a sentence says why there is none.
        assert result.ok is (None if result.status in ("definition", "prose") else True), result
        assert len(result.message) > 10, result
    assert [(entry["id"], entry["status"]) for entry in report["entries"]] == [(r.id, r.status) for r in ran]
    assert "not yet" not in (out + registry.table(ran)).lower()


@pytest.mark.parametrize(("paper", "numbers"), PAPERS.items())
def test_the_registry_accounts_for_every_number(paper, numbers):
    """The same counts without running a check: what each entry claims."""
    entries = registry.load(paper)
    claimed = Counter(entry.status for entry in entries)
    assert set(claimed) <= KINDS
    assert sum(claimed.values()) == numbers
    assert sum(entry.check is not None for entry in entries) == claimed["proved"] + claimed["checked"]
    # Without checks an entry is not judged, so a run of those alone is what the command would say of them.
    rest = registry.summary(registry.run_entries([entry for entry in entries if entry.check is None], paper=paper))
    assert rest["ran"] == 0
    assert rest["total"] == numbers - claimed["proved"] - claimed["checked"]
    for entry in (*entries, *registry.load_errata(paper)):
        said = " ".join(str(value) for value in vars(entry).values()).lower()
        assert "not yet" not in said and "todo" not in said, entry.id


@pytest.mark.parametrize("paper", PAPERS)
def test_every_erratum_has_evidence_of_its_own(paper):
    errata = registry.load_errata(paper)
    # Of the third, only the text's summaries were there to check against.
    assert bool(errata) == (paper != "chen2024")
    for entry in errata:
        assert len(entry.evidence.split()) > 5, f"{entry.id}: evidence is a sentence"
        assert entry.published != entry.correct, entry.id
    for field in ("evidence", "check"):
        values = [getattr(entry, field) for entry in errata]
        assert len(set(values)) == len(values), f"two errata share their {field}"


@pytest.fixture
def only_some(monkeypatch):
    """Let the command run the entries without a check alone, and one check that a test may break."""
    checks = {}

    def run(paper, ids=None, progress=None):
        entries = [entry for entry in registry.load(paper) if entry.check is None]
        if paper in checks:
            entries.append(registry.Equation(999, "t", "x", "derived", "checked", check=checks[paper]))
        return registry.run_entries(entries, ids=ids, progress=progress, paper=paper)

    monkeypatch.setattr(registry, "run", run)
    return checks


def test_all_papers_at_once(capsys, only_some):
    assert cli.main(["verify", "--paper", "all", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["status"] == "all checks passed"
    assert [one["paper"] for one in report["papers"]] == sorted(PAPERS)
    for one in report["papers"]:
        expected = sum(entry.check is None for entry in registry.load(one["paper"]))
        assert one["total"] == len(one["entries"]) == expected > 0


def test_one_failing_paper_fails_all(capsys, only_some):
    only_some["boncoraglio2025"] = "math:floor"  # takes an argument: the check raises
    assert cli.main(["verify", "--paper", "all"]) == 1
    said = capsys.readouterr()
    assert "FAILED: (999)" in said.out
    assert said.out.index("boncoraglio2025") < said.out.index("FAILED") < said.out.index("troiani2025")
    assert cli.main(["verify", "--paper", "all", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == "checks failed: boncoraglio2025; see the tables"
    assert [one["ok"] for one in report["papers"]] == [False, True, True]


def test_numbers_belong_to_one_paper(capsys):
    assert cli.main(["verify", "--paper", "all", "--id", "1"]) == 2
    assert "--id numbers the equations of one paper" in capsys.readouterr().err
