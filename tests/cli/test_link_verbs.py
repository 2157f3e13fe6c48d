"""`threshold --link` and `derive --link`: what they print, what they cache, and how they fail."""

import argparse
import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from attnlimits.numerics.cli import link as link_cli
from attnlimits.numerics.model import links


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ATTNLIMITS_CACHE", str(tmp_path))
    return tmp_path / "links"


def ask(text: str, **options: object) -> argparse.Namespace:
    usual: dict[str, object] = {
        "noise": "0",
        "digits": None,
        "staircase": False,
        "given": None,
        "out": None,
        "accuracy": None,
    }
    return argparse.Namespace(link=text, prior="gaussian", density=None, **usual | options)


def test_threshold_of_phase_retrieval() -> None:
    record, text, converged = link_cli.threshold(ask("abs(h)", digits=6))
    assert converged and record["value"] == "0.500000" and record["exact"] == "1/2"
    assert record["error"] <= 1e-15 and record["how"] == "rigorous"
    assert "alpha(index 1) = 0.500000 = 1/2 exactly" in text
    json.dumps(record, allow_nan=False)


def test_threshold_of_the_sign_of_a_product() -> None:
    record, text, converged = link_cli.threshold(ask("sign(h[1]*h[2])"))
    assert converged and record["exact"] == "pi**2/4"
    assert float(record["value"]) == pytest.approx(math.pi**2 / 4, abs=record["error"])
    assert record["subspace"] == "indices 1, 2" and "pi**2/4 exactly" in text


def test_infinite_at_this_order_is_not_a_number() -> None:
    record, text, converged = link_cli.threshold(ask("sign(h_1*h_2*h_3)"))
    assert converged and record["value"] is None and record["exact"] == "oo"
    assert "infinite at this order" in text and "infinite at this order" in record["status"]
    json.dumps(record, allow_nan=False)


def test_staircase() -> None:
    record, text, converged = link_cli.threshold(ask("h_1**2 + sign(h_1*h_2*h_3)", staircase=True, digits=8))
    assert converged
    first, second = record["steps"]
    assert record["value"] == first["value"] == "0.57516635"
    assert second["value"] == "2.4674011" and second["given"] == [1]
    assert second["exact"] == "pi**2/4" and second["how"] == "rigorous"
    assert "alpha(indices 2, 3 given index 1) = 2.4674011 = pi**2/4 exactly" in text
    json.dumps(record, allow_nan=False)


def test_noise() -> None:
    clean, noisy = (float(link_cli.threshold(ask("abs(h)", noise=noise))[0]["value"]) for noise in ("0", "0.25"))
    assert noisy > clean


@pytest.mark.parametrize(
    ("link", "noise", "same"),
    [("sign(h_1*h_2)", 1e-300, "2.467401100272"), ("sign(h_1*h_2*h_3)", 1e-300, None), ("h", 1e-300, "0")],
)
def test_noise_that_float64_does_not_resolve(link: str, noise: float, same: str | None) -> None:
    record, text, converged = link_cli.threshold(ask(link, noise=noise))
    assert converged and record["value"] == same and record["noise"] == noise
    assert "is below what float64 resolves" in text and "this is the threshold without noise" in text
    # noise keeps 0 and infinity, and moves a number
    assert record["exact"] == {None: "oo", "0": "0"}.get(same)


def test_staircase_along_a_sum() -> None:
    record, text, converged = link_cli.threshold(ask("max(h[1], h[2])", staircase=True))
    assert converged and record["directions"] == [[1, 1], [1, -1]] and len(record["steps"]) == 2
    assert "alpha(h_1 - h_2 given h_1 + h_2) = 0.9971593" in text and "continuous: its overlap rises" in text
    _, perfect, _ = link_cli.threshold(ask("max(h[1], h[2])", staircase=True, given="perfect"))
    assert "alpha(h_1 - h_2 given h_1 + h_2) = 0.5000" in perfect
    again, _, _ = link_cli.threshold(ask("max(h[1], h[2])", staircase=True))
    assert again["steps"] == record["steps"]


def test_values_beyond_float64_are_named() -> None:
    record, text, converged = link_cli.threshold(ask("sign(abs(h[1]) - 1e-160)"))
    assert converged and float(record["value"]) == pytest.approx(math.sqrt(math.pi / 2) * 1e160, rel=1e-11)
    assert "e+160" in text
    with pytest.raises(ValueError, match="is beyond the range of float64"):
        link_cli.threshold(ask("sign(abs(h[1]) - 40)"))


def test_zero_is_printed_once_and_exact_only_if_proved() -> None:
    record, text, _ = link_cli.threshold(ask("sin(h[1])"))
    assert (record["exact"], record["how"]) == ("0", "rigorous") and "alpha(index 1) = 0 exactly\n" in text
    record, text, _ = link_cli.threshold(ask("sin(h[1] + h[2] + h[3] + h[4])"))
    assert (record["value"], record["exact"]) == ("0", None) and "= 0\n" in text and "not proved" in text


def test_digits_that_cannot_be_reached_do_not_converge() -> None:
    record, _, converged = link_cli.threshold(ask("abs(h_1) + abs(h_2)", digits=13))
    assert not converged and "not reached" in record["status"]


def test_more_digits_come_from_the_derived_integral() -> None:
    """h_1 h_2: the quadrature of the operator gives nine digits, the integral of Bessel functions the rest."""
    few, _, _ = link_cli.threshold(ask("h[1]*h[2]"))
    many, text, converged = link_cli.threshold(ask("h[1]*h[2]", digits=13))
    assert converged and len(many["value"].replace("0.", "")) == 13 and many["error"] <= 1e-13
    assert abs(float(many["value"]) - float(few["value"])) <= few["error"]
    assert "Integral" in many["exact"] and "the derived integral" in text


def test_a_lower_bound_is_no_infinity() -> None:
    record, text, converged = link_cli.threshold(ask("cos(20*h)"))
    assert not converged and record["value"] is None and record["exact"] is None
    assert record["at_least"] > 1e10 and text.splitlines()[1].startswith("alpha > ")
    json.dumps(record, allow_nan=False)


def test_derive_writes_one_kernel_by_its_hash(cache: Path) -> None:
    record, text, ok = link_cli.derive(ask("h_1*h_2"))
    assert ok and record["folder"] == str(cache)
    (path,) = cache.glob("*.py")
    assert str(path) == record["path"] and path.name == f"{hashlib.sha256(path.read_bytes()).hexdigest()}.py"
    assert record["hash"] in text and str(cache) in text
    # the same link, said otherwise
    assert link_cli.derive(ask("  h[1] * h[2] "))[0]["hash"] == record["hash"]
    assert len(list(cache.glob("*.py"))) == 1


def test_derive_to_a_folder(tmp_path: Path) -> None:
    record, _, _ = link_cli.derive(ask("abs(h)", out=tmp_path / "here"))
    assert links.load_link(Path(record["path"])).exact == "1/2"
    assert Path(record["path"]).parent == tmp_path / "here"


def test_a_cached_kernel_needs_no_sympy(cache: Path) -> None:
    code = (
        "import sys, argparse; from attnlimits.numerics.cli import link as link_cli\n"
        "from attnlimits.numerics.model import derivations\n"
        "assert 'sympy' not in sys.modules\n"
        "asked = argparse.Namespace(link='sign(h_1*h_2)', noise='0', digits=None, staircase=False, given=None)\n"
        "r = link_cli.threshold(asked)[0]\n"
        "print(r['value'], 'sympy' in sys.modules, derivations._worker is not None)"
    )

    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return done.stdout.split()

    first, second = run(), run()
    assert first[0] == second[0]
    # SymPy is another process's, and that one is not started for what is known.
    assert (first[1:], second[1:]) == (["False", "True"], ["False", "False"])


def test_a_kernel_lost_from_the_cache_is_derived_again(cache: Path) -> None:
    record = link_cli.derive(ask("abs(h)"))[0]
    Path(record["path"]).unlink()
    assert link_cli.threshold(ask("abs(h)"))[0]["hash"] == record["hash"]


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("h^2", {}, "position 2"),
        ("sqrt(h)", {}, "not a finite real number"),
        ("sign(h**2)", {}, "takes the same value for every h"),
        ("h[1]*h[2]; h[2]*h[3]; h[1]*h[3]; h[1]*h[2]*h[3] + h[1]**2*h[2]**2", {}, "samples serve at most 3 outputs"),
        ("h", {"noise": "-1"}, "noise must be"),
        ("h", {"noise": "inf"}, "noise must be"),
        ("h", {"digits": 0}, "--digits must be from 1 to 13"),
    ],
)
def test_errors(text: str, options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        link_cli.threshold(ask(text, **options))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow_for("log(abs(h[2]*h[1]))-1/(-1 + 2*Integral")
@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("h[1]*h[2]", "Integral"),
        ("h[1]/h[2]", "1"),
        ("log(abs(h[2]*h[1]))", "1/(-1 + 2*Integral"),
        ("h[1]^2", None),
    ],
)
def test_the_table_of_derived_thresholds_adds_its_form(text: str, exact: str | None) -> None:
    """Two routes meet here: the quadrature of the operator and the integral that SymPy derived."""
    if exact is None:
        with pytest.raises(ValueError, match=r"write powers as \*\*"):
            link_cli.threshold(ask(text))
        return
    record, _, converged = link_cli.threshold(ask(text))
    assert converged and record["how"] == "estimated"
    assert exact in record["exact"]
