"""Verbs with --dask: the records of the same commands without it, and what is refused."""

import json
from pathlib import Path

import pytest

import attnlimits as al

# Noise as narrow as this is sampled: quadrature has no parts that go to a cluster.
COMMANDS = {
    "evolve": "--layers 2 --alpha 0.9 --samples 64 --replicas 3 --max-iter 8",
    "evolve of a link": '--link "h[1]*h[2]" --noise 1e-7 --alpha 2 --samples 64 --replicas 3',
    "curve": '--link "h[1]*h[2]" --noise 1e-7 --from 0.5 --to 2 --points 2 --samples 64 --replicas 3',
    "free-energy": '--link "h[1]*h[2]" --noise 1e-7 --alpha 0.8 --samples 8 --replicas 2 --starts 0',
}


def record_of(said):
    """The record but for how long it took."""
    record = json.loads(said.out)
    del record["seconds"]
    return record


@pytest.mark.slow_for("evolve of a link")  # its curve has the same averages
@pytest.mark.parametrize("name", COMMANDS)
def test_the_record_is_the_same(attnlimits, where, name):
    command = f"{name.split()[0]} {COMMANDS[name]} --json"
    there, here = attnlimits(f"{command} --dask {where}"), attnlimits(f"{command} --workers 1")
    assert record_of(there) == record_of(here)
    assert (there.status, there.err) == (here.status, here.err)


def test_a_landscape_is_the_same(attnlimits, where, tmp_path, once):
    # Its stationary points are those of free-energy, above.
    once(al.free_energy, "located")
    command = 'landscape --link "h[1]*h[2]" --noise 1e-7 --alpha 0.8 --samples 4 --replicas 2 --starts 0 --points 4'
    for folder, more in (("here", ""), ("there", f"--dask {where}")):
        assert attnlimits(f"{command} --out {tmp_path / folder / 'phi.svg'} {more}").status == 0
    assert (tmp_path / "there/phi.json").read_bytes() == (tmp_path / "here/phi.json").read_bytes()


@pytest.mark.slow_for("figure boncoraglio2025-prediction")
@pytest.mark.parametrize("verb", ["figure boncoraglio2025-prediction", "aim figure 5"])
def test_a_figure_is_the_same(attnlimits, where, tmp_path, verb):
    for folder, more in (("here", ""), ("there", f"--dask {where}")):
        assert attnlimits(f"{verb} --points 4 --format svg --out {tmp_path / folder} {more}").status == 0
    [there], [here] = ([*(tmp_path / folder).glob("*.json")] for folder in ("there", "here"))
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("figure troiani2025-1 --dask local", "one curve whose points follow each other"),
        ("figure troiani2025-4 --dask local", "troiani2025-4 is drawn from stored data"),
        ("aim figure 5 --stored --dask local", "boncoraglio2025-5 is drawn from stored data"),
        ("figure boncoraglio2025-5 --workers 2", "--workers are the processes of --dask local"),
        (
            "figure boncoraglio2025-5 --workers 0 --dask local",
            "--workers are the processes of --dask local, at least one",
        ),
        ("evolve --layers 1 --alpha 0.4 --dask tcp://1.2.3.4:5 --workers 2", "workers is for a local cluster"),
        ('free-energy --link "h[1]**2" --alpha 1 --dask x.json --workers 2', "workers is for a local cluster"),
    ],
)
def test_what_is_refused(attnlimits, tmp_path, monkeypatch, command, words):
    """Before anything is started or written."""
    monkeypatch.chdir(tmp_path)
    said = attnlimits(command)
    assert said.status == 2 and words in said.err and not list(Path().iterdir())


@pytest.mark.slow  # a process that imports the package
def test_a_local_cluster(attnlimits):
    command = f"evolve {COMMANDS['evolve']} --json"
    there, here = (attnlimits(f"{command} {more}") for more in ("--dask local --workers 1", "--workers 1"))
    assert record_of(there) == record_of(here)
