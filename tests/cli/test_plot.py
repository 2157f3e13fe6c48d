"""--plot of the verbs whose results can be looked at, and the looks of `attnlimits figure`."""

import json
import re

import pytest

import attnlimits as al

DRAWN = {
    "curve": ('curve --link "h[1]**2" --from 0.4 --to 0.7 --points 4', "samples per dimension"),
    "evolve": ("evolve --layers 1 --alpha 0.4", "iteration"),
    "evolve of a link": ('evolve --link "h[1]**2" --alpha 0.8', "iteration"),
    "free-energy": ('free-energy --link "h[1]**2" --alpha 1.05', "free entropy"),
    "gamp": ("gamp --layers 1 --alpha 0.8 --dimension 40 --seeds 2", "overlap"),
}


def words(path):
    """Texts of an svg, which draws its letters: they stand beside them as comments."""
    return " ".join(re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8")))


@pytest.mark.slow_for("evolve of a link")  # drawn as that of a network
@pytest.mark.parametrize("verb", DRAWN)
def test_pictures(attnlimits, once, tmp_path, verb):
    command, axis = DRAWN[verb]
    # What the picture is drawn of is computed once.
    once(al, "curve")
    once(al.free_energy, "located")
    plain = attnlimits(command)
    said = attnlimits(f"{command} --plot {tmp_path / 'new' / 'picture.svg'}")
    assert said.status == plain.status == 0, said.err
    assert said.out == f"{plain.out}wrote {tmp_path / 'new' / 'picture.svg'}\n"
    assert axis in words(tmp_path / "new" / "picture.svg")


def test_a_picture_beside_json(attnlimits, tmp_path):
    said = attnlimits(f"evolve --layers 1 --alpha 0.4 --json --plot {tmp_path / 'picture.png'}")
    assert json.loads(said.out)["converged"]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("curve --layers 3 --from 0.1 --to 9 --points 99 --plot x.jpg", "--plot needs a name that ends with"),
        ("gamp --layers 3 --alpha 0.4 --dimension 99999 --plot x", "--plot needs a name that ends with"),
        ("evolve --layers 3 --alpha 0.4 --plot x.gif", "--plot needs a name that ends with"),
        ("free-energy --alpha 0.4 --plot x.gif", "--plot needs a name that ends with"),
        ('free-energy --link "h[1]**2" --transitions --plot x.png', "give --alpha instead of --transitions"),
        ("figure troiani2025-5 --width wide", "--width: a width is column, page or inches in [2, 40], got 'wide'"),
        ("figure troiani2025-5 --style none", "--style: no style 'none'"),
        ("figure troiani2025-5 --format gif", "argument --format"),
        ("figure --list --dask local", "--list computes no curves; leave out --dask"),
        ("figure --list --workers 2", "--list computes no curves; leave out --workers"),
    ],
)
def test_refused_before_anything_is_computed(attnlimits, line, says):
    said = attnlimits(line)
    assert said.status == 2 and says in said.err and len(said.lines_of_error) == 1


def test_a_list_of_figures(attnlimits):
    said = attnlimits("figure --list")
    lines = said.out.splitlines()
    assert said.status == 0 and len(lines) == 21
    assert lines[4].startswith("troiani2025-5 ") and "nothing is learned of it" in lines[4]
    found = json.loads(attnlimits("figure --list --json").out)
    assert len(found["figures"]) == 21 and found["figures"]["chen2024-scaling"].startswith("Scaling: ")


def test_looks_of_a_figure(attnlimits, tmp_path):
    said = attnlimits(
        f"figure troiani2025-5 --format svg --format png --width 4 --style slides --out {tmp_path} --json"
    )
    assert said.status == 0, said.err
    assert set(json.loads(said.out)["files"]) == {"json", "svg", "png"}
    assert 'width="288pt"' in (tmp_path / "troiani2025-5.svg").read_text(encoding="utf-8")


def test_a_figure_that_is_computed_may_be_drawn_from_what_is_stored(attnlimits, tmp_path):
    said = attnlimits(f"figure troiani2025-1 --stored --format png --out {tmp_path} --json")
    found = json.loads(said.out)
    assert said.status == 0 and found["status"] == "drawn from figure_1.json"
    assert float(found["value"]) == pytest.approx(0.185477840607, abs=1e-12)
    assert set(found["thresholds"]) == {"layer 1", "layer 2"}
