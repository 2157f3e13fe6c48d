"""The verb `denoise`: every digit, many samples, interrupts, bad input."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath.ctx_mp import MPContext

from attnlimits.numerics.model.network import Network
from attnlimits.numerics.posterior.denoiser import denoise
from attnlimits.numerics.posterior.fibres import fibre_moments
from attnlimits.numerics.posterior.precise import denoiser as precise

Command = Callable[[str], Any]

CTX = MPContext()
CTX.dps = 60
MODEL = "--skip 5 --beta 0.2"
Y, OMEGA, V = "[[0.52, 0.48], [0.45, 0.55]]", "[[0.3, -0.5], [0.2, 0.7]]", "[[0.02, 0.01], [0.01, 0.4]]"
SAMPLE = f"--y '{Y}' --omega '{OMEGA}' --V '{V}'"
ONE_LAYER = "denoise --layers 1 --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2]]' --V '[[0.5]]'"


def parsed(command: Command, line: str) -> dict[str, Any]:
    said = command(line + " --json")
    assert said.status == 0, said.err
    return json.loads(said.out)


def test_against_float64(attnlimits: Command) -> None:
    made = parsed(attnlimits, f"denoise {MODEL} {SAMPLE} --digits 12")
    floats = denoise(Network(skip=5.0, beta=0.2), *(json.loads(text) for text in (Y, OMEGA, V)))
    assert float(made["value"]) == pytest.approx(float(floats.log_z), rel=1e-11)
    np.testing.assert_allclose(np.array(made["g_out"], float), floats.g_out, rtol=1e-11)
    np.testing.assert_allclose(np.array(made["dg_out"], float), floats.dg_out, rtol=1e-9)
    assert made["how"] == "estimated" and made["error"] <= 1e-12 and made["digits"] == 12
    assert made["route"] == "Gauss-Legendre rules in fixed point" and made["nodes"] > 0


def test_decimals_are_exact(attnlimits: Command) -> None:
    """One layer has a closed form, here in decimals: y_12 = 0.3 and not the double next to it."""
    made = parsed(attnlimits, f"{ONE_LAYER} --digits 50")
    first, second = CTX.log(CTX.mpf(7) / 3), CTX.log(CTX.mpf(4))
    gap = CTX.sqrt(first + second)
    v = first / gap, -second / gap
    omega, variance = (CTX.mpf("0.1"), CTX.mpf("0.2")), CTX.mpf("0.5")
    field = sum(a * b for a, b in zip(v, omega, strict=True)) / variance
    for entry, a, b in zip(made["g_out"][0], v, omega, strict=True):
        assert abs(CTX.mpf(entry) - (a * CTX.tanh(field) - b) / variance) < 1e-49
    assert len(made["value"].replace("-", "").replace("0.", "", 1)) == 51  # its rounding is below the fiftieth digit
    assert made["how"] == "rigorous" and made["route"] == "closed form"
    as_text = parsed(attnlimits, ONE_LAYER.replace("0.7", '"0.7"').replace("0.2]", '"2e-1"]') + " --digits 50")
    assert as_text["value"] == made["value"]


def test_skip_and_beta_are_decimals(attnlimits: Command) -> None:
    """A tenth is no double: its neighbour differs in the seventeenth digit."""
    model = Network(skip=5.1, beta=0.2)
    made = parsed(attnlimits, f"denoise --skip 5.1 --beta 0.2 {SAMPLE} --digits 22")
    arguments = [[[str(x) for x in row] for row in json.loads(text)] for text in (Y, OMEGA, V)]
    binary = precise.denoise_mp(model, *arguments, digits=22)
    decimal = precise.denoise_mp(model, *arguments, digits=22, skip="5.1", beta="0.2")
    assert abs(CTX.mpf(made["value"]) - decimal.log_z) < CTX.mpf("1e-21")
    assert CTX.mpf("1e-19") < abs(binary.log_z - decimal.log_z) < CTX.mpf("1e-14")


def test_what_is_printed_is_within_its_error(attnlimits: Command) -> None:
    """Rounding to the digits that are printed is far more than what the closed form is off by."""
    made, finer = (parsed(attnlimits, f"{ONE_LAYER} --digits {digits}") for digits in (12, 40))
    off = [abs(CTX.mpf(made["value"]) - CTX.mpf(finer["value"])) / max(1, abs(CTX.mpf(finer["value"])))]
    for name in ("g_out", "dg_out"):
        entries, exact = (np.ravel(one[name]) for one in (made, finer))
        largest = max(abs(CTX.mpf(x)) for x in exact)
        off += [abs(CTX.mpf(x) - CTX.mpf(z)) / largest for x, z in zip(entries, exact, strict=True)]
    assert 1e-15 < max(off) <= made["error"] <= 1e-12


def test_text_shows_the_same(attnlimits: Command) -> None:
    said = attnlimits(f"{ONE_LAYER} --digits 20")
    assert said.status == 0 and said.err == ""
    made = parsed(attnlimits, f"{ONE_LAYER} --digits 20")
    assert f"log Z = {made['value']}" in said.out
    for entry in made["g_out"][0]:
        assert entry in said.out
    assert "rigorous" in said.out


def test_untied_weights_of_one_layer_are_integrated_over_the_fibre(attnlimits: Command) -> None:
    """In words and as JSON, to digits that may be asked for."""
    line = "denoise --layers 1 --untied --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.1, 0.2], [0, 0.3]]' "
    line += "--V '[[1, 0.1], [0.1, 0.5]]'"
    made = parsed(attnlimits, line)
    layer = Network(1, 2, tied=False)
    exact = fibre_moments(layer, [[0.7, 0.3], [0.2, 0.8]], [[0.1, 0.2], [0, 0.3]], [[1, 0.1], [0.1, 0.5]], tol=1e-9)
    assert abs(float(made["value"]) - exact.log_z) < made["error"] + 1e-9 and made["how"] == "estimated"
    g = np.linalg.solve([[1, 0.1], [0.1, 0.5]], exact.mean - [[0.1, 0.2], [0, 0.3]])
    assert (np.abs(np.array(made["g_out"]) - g) < np.array(made["g_error"]) + 1e-8).all()
    assert np.shape(made["dg_out"]) == np.shape(made["dg_error"]) == (2, 2, 2, 2)
    said = attnlimits(line)
    assert " +- " in said.out and "largest relative error" in said.out
    assert parsed(attnlimits, f"{line} --digits 12")["error"] <= 1e-12


def test_deeper_untied_weights_are_sampled(attnlimits: Command) -> None:
    """To the accuracy asked for, under either of its names."""
    line = (
        "denoise --layers 2 --untied --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '[[0.2, 0], [0.4, 0.1], [0, 0], [0, 0]]' "
    )
    line += "--V '[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]'"
    made, same = parsed(attnlimits, f"{line} --accuracy 0.1"), parsed(attnlimits, f"{line} --tol 0.1")
    assert made["how"] == "monte-carlo" and made["value"] == same["value"] and made["seed"] == 0
    refused = attnlimits(f"{line} --digits 5")
    assert refused.status == 2 and "tied weights of rank 1" in refused.err


LINK = "denoise --link 'h[1]*h[2]' --y '[0.3]' --omega '[[0.2], [0.4]]' --V '[[0.8, 0.2], [0.2, 0.6]]'"


def test_a_link_is_integrated(attnlimits: Command) -> None:
    """In words and as JSON, with noise of both kinds."""
    made, finer = parsed(attnlimits, LINK), parsed(attnlimits, f"{LINK} --digits 11")
    assert made["how"] == "estimated" and np.shape(made["dg_out"]) == (2, 1, 2, 1)
    assert abs(float(made["value"]) - float(finer["value"])) < made["error"] <= 1e-8 and finer["error"] <= 1e-11
    assert "log Z = -0.64841696" in attnlimits(LINK).out
    one = "--omega '[[0.2]]' --V '[[1]]'"
    flipped = parsed(attnlimits, f"denoise --link 'sign(h[1])' --label-noise 0.1 --y '[1]' {one}")
    assert abs(float(flipped["value"]) - math.log(0.1 + 0.8 * 0.57925970943910299)) < 1e-12
    noisy = parsed(attnlimits, f"denoise --link '2*h[1]' --noise 0.1 --y '[1]' {one}")
    assert abs(noisy["g_out"][0][0] - 2 * 0.6 / 4.1) < 1e-8
    exact = parsed(attnlimits, f"denoise --link '2*h[1]' --y '[1]' {one}")
    assert abs(exact["g_out"][0][0] - 0.3) < 1e-12, "the numbers are those of the link as it is written"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--digits 20", "--digits must be in [1, 12]"),
        ("--digits 5 --accuracy 1e-3", "--digits are an accuracy"),
        ("--tol 0.1 --accuracy 1e-3", "--tol is another name of --accuracy"),
        ("--accuracy 1e-20", "accuracy must be in"),
        ("--layers 3", "--link stands instead of one"),
    ],
)
def test_what_is_refused_of_links(flags: str, said: str, attnlimits: Command) -> None:
    """Bad arguments, in one line."""
    refused = attnlimits(f"{LINK} {flags}")
    assert refused.status == 2 and said in refused.err


def test_outputs_of_a_link_are_lists_of_numbers(tmp_path: Path, attnlimits: Command) -> None:
    """In the flag, and along the first axis of arrays."""
    refused = attnlimits(LINK.replace("[0.3]", "[[0.3]]"))
    assert refused.status == 2 and "--y must be a list of the outputs, such as [0.5]" in refused.err
    np.savez(tmp_path / "in.npz", y=[[0.3], [-0.5]], omega=[[0.2], [0.4]], V=[[0.8, 0.2], [0.2, 0.6]])
    many = parsed(attnlimits, f"denoise --link 'h[1]*h[2]' --input {tmp_path / 'in.npz'}")
    assert many["samples"][0]["value"] == parsed(attnlimits, LINK)["value"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three samples at depth 1."""
    path = tmp_path / "samples.json"
    samples = [
        f'{{"y": [[0.7, 0.3], [0.2, 0.8]], "omega": [[0.1, {shift}]], "V": [[0.5]]}}' for shift in ("0.2", "0", "-1")
    ]
    path.write_text(f"[{', '.join(samples)}]")
    return path


def test_many_samples(attnlimits: Command, file: Path, tmp_path: Path) -> None:
    """A list in JSON, arrays in NPZ and lines of --out tell the same; the first is that of the flags."""
    one = parsed(attnlimits, f"{ONE_LAYER} --digits 12")
    from_json = parsed(attnlimits, f"denoise --layers 1 --input {file} --digits 12")
    assert [len(from_json["samples"]), from_json["converged"]] == [3, True]
    assert from_json["samples"][0]["value"] == one["value"]
    omega = np.array([[[0.1, 0.2]], [[0.1, 0.0]], [[0.1, -1.0]]])
    arrays = tmp_path / "samples.npz"
    np.savez(arrays, y=np.broadcast_to([[0.7, 0.3], [0.2, 0.8]], (3, 2, 2)), omega=omega, V=np.array([[0.5]]))
    out = tmp_path / "out.jsonl"
    from_npz = parsed(attnlimits, f"denoise --layers 1 --input {arrays} --digits 12 --out {out}")
    assert [s["value"] for s in from_npz["samples"]] == [s["value"] for s in from_json["samples"]]
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["sample"] for line in lines] == [1, 2, 3]
    assert [line["value"] for line in lines] == [s["value"] for s in from_npz["samples"]]
    said = attnlimits(f"denoise --layers 1 --input {file} --digits 12")
    assert said.out.count("log Z = ") == 3 and "all 3 samples" in said.out


def stopped_by(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second sample end so."""
    solve, calls = precise.denoise_mp, []

    def second_fails(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return solve(*arguments, **options)

    monkeypatch.setattr("attnlimits.verbs.denoise.denoise_mp", second_fails)


@pytest.mark.parametrize(
    ("error", "said_why"),
    [(KeyboardInterrupt(), "interrupted after 1 of 3"), (ValueError("y is wrong"), "sample 2 of 3: y is wrong")],
)
def test_finished_samples_are_kept(
    attnlimits: Command,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    said_why: str,
) -> None:
    whole = parsed(attnlimits, f"denoise --layers 1 --input {file}")
    out = tmp_path / "out.jsonl"
    stopped_by(error, monkeypatch)
    said = attnlimits(f"denoise --layers 1 --input {file} --json --out {out}")
    assert said.status == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert said_why in said.err and len(said.lines_of_error) == 1
    made = json.loads(said.out)
    assert made["converged"] is False and made["samples"] == whole["samples"][:1]
    assert json.loads(out.read_text())["value"] == whole["samples"][0]["value"]


def test_an_interrupt_of_the_first_sample(attnlimits: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_by(KeyboardInterrupt(), monkeypatch)
    attnlimits(ONE_LAYER)
    said = attnlimits(ONE_LAYER)
    assert (said.status, said.out) == (130, "") and len(said.lines_of_error) == 1


BAD = [
    ("denoise", "--y, --omega, --V missing"),
    (f"denoise --y '{Y}' --V '{V}'", "--omega missing"),
    (f"denoise {SAMPLE} --input x.json", "leave --y"),
    (f"denoise {SAMPLE} --digits 3", "digits must be an integer in [5, 200]"),
    (f"denoise {SAMPLE} --max-nodes 0", "--max-nodes must be >= 1"),
    (f"denoise {SAMPLE} --layers 3", "omega must be a single one, of shape (3, 2)"),
    (f"denoise {SAMPLE} --untied", "omega must be finite with shape (..., 4, 2)"),
    (f"denoise {SAMPLE} --untied --digits 12", "no precise denoiser for untied"),
    (f"denoise {SAMPLE} --layers 3 --tokens 3 --output sequence", "--output sequence is not served by `denoise`"),
    (f"denoise --y '[[0.7' --omega '{OMEGA}' --V '{V}'", "--y is no JSON"),
    (f"denoise --y 0.7 --omega '{OMEGA}' --V '{V}'", "--y must be a list of rows"),
    (f"denoise --y '[[0.7, 0.3]]' --omega '{OMEGA}' --V '{V}'", "y must be a single one, of shape (2, 2)"),
    (f"denoise --y '[[0.7, 0.3], [0.2, true]]' --omega '{OMEGA}' --V '{V}'", "y: expected a number"),
    (f"denoise --y '[[0.4, 0.6], [0.5, 0.5]]' --omega '{OMEGA}' --V '{V}'", "(177)"),
    (f"denoise --y '{Y}' --omega '{OMEGA}' --V '[[1, 1], [1, 1]]'", "V must be positive definite"),
]


@pytest.mark.parametrize(("line", "word"), BAD)
def test_bad_arguments(attnlimits: Command, line: str, word: str) -> None:
    said = attnlimits(line)
    assert (said.status, said.out) == (2, "")
    assert word in said.err and len(said.lines_of_error) == 1


@pytest.mark.parametrize(
    ("text", "word"),
    [("[]", "holds no sample"), ('{"y": 1}', "must hold an object with y, omega and V"), ("{", "no JSON")],
)
def test_bad_files(attnlimits: Command, tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "in.json"
    path.write_text(text)
    said = attnlimits(f"denoise --input {path}")
    assert (said.status, said.out) == (2, "") and word in said.err


@pytest.mark.parametrize(
    ("arrays", "word"),
    [
        ({"y": np.ones((3, 2, 2))}, "no array omega, V"),
        ({"y": np.ones((2, 2)), "omega": np.ones((2, 2)), "V": np.eye(2)}, "(samples, M, M)"),
        ({"y": np.ones((3, 2, 2)), "omega": np.ones((2, 2, 2)), "V": np.eye(2)}, "omega must be one matrix"),
    ],
)
def test_bad_arrays(attnlimits: Command, tmp_path: Path, arrays: dict[str, Any], word: str) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)
    said = attnlimits(f"denoise --input {path}")
    assert (said.status, said.out) == (2, "") and word in said.err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"text"])
def test_no_arrays(attnlimits: Command, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    said = attnlimits(f"denoise --input {path}")
    assert (said.status, said.out) == (2, "") and "is no .npz file" in said.err


def test_too_little_work_allowed(attnlimits: Command) -> None:
    said = attnlimits(f"denoise {MODEL} {SAMPLE} --max-nodes 10")
    assert said.status == 1 and "raise max_nodes" in said.err and len(said.lines_of_error) == 1


def test_missing_file(attnlimits: Command) -> None:
    said = attnlimits("denoise --input nowhere.json")
    assert said.status == 2 and "nowhere.json" in said.err


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        ("--layers 1 --omega '[[0.1, 0.2]]' --V '[[1e-400]]'", "V must have entries"),
        ("--layers 1 --omega '[[1e5000, 0.2]]' --V '[[1]]'", "omega must have entries"),
        ("--layers 1 --omega '[[0.1, 0.2]]' --V '[[1e99999999999999999999]]'", "V must have entries"),
        ("--omega '[[0, 0.2], [0, 1e-9999]]' --V '[[1, 0], [0, 1]]'", "omega must have entries"),
    ],
)
def test_sizes_beyond_float64_are_named(attnlimits: Command, flags: str, word: str) -> None:
    said = attnlimits(f"denoise --y '[[0.7, 0.3], [0.2, 0.8]]' {flags}")
    assert (said.status, said.out) == (2, "")
    assert word in said.err and "1e-307" in said.err and len(said.lines_of_error) == 1


@pytest.mark.parametrize(
    ("omega", "V", "word"),
    [
        ("[[1e306, 0.2], [0, 0]]", "[[1, 0], [0, 1]]", "omega"),
        ("[[0, 0.2], [0, 0]]", "[[1e306, 0], [0, 1e306]]", "V"),
        ("[[0, 0.2], [0, 0]]", "[[1e20, 0], [0, 1e20]]", "V"),
        ("[[0, 0.2], [0, 0]]", "[[1e-306, 0], [0, 1e-306]]", "V"),
    ],
)
def test_what_cannot_be_searched_is_refused_at_once(attnlimits: Command, omega: str, V: str, word: str) -> None:
    said = attnlimits(f"denoise --y '[[0.7, 0.3], [0.2, 0.8]]' --omega '{omega}' --V '{V}'")
    assert (said.status, said.out) == (1, "")
    assert word in said.err and len(said.lines_of_error) == 1


def test_sizes_near_the_ends_of_float64(attnlimits: Command) -> None:
    """One layer has a closed form, whose errors are no floats on the way."""
    for variance in ("1e-300", "1e306"):
        made = parsed(attnlimits, ONE_LAYER.replace("0.5", variance) + " --digits 20")
        assert made["error"] <= 1e-20 and made["how"] == "rigorous"


def test_the_search_is_bounded_like_the_nodes(attnlimits: Command) -> None:
    """A posterior over ten thousand widths of the link: refused before minutes are spent, with what to raise."""
    flags = "--omega '[[0, 0.2], [0, 0]]' --V '[[1e4, 0], [0, 1e4]]' --max-nodes 100000"
    said = attnlimits(f"denoise --y '[[0.7, 0.3], [0.2, 0.8]]' {flags}")
    assert (said.status, said.out) == (1, "")
    assert "raise max_nodes" in said.err and "V" in said.err
