"""Reports in a browser: every formula and plot is drawn, nothing overflows, and nothing is fetched or complained of."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlunsplit

import pytest

import attnlimits as al
from attnlimits.numerics.report.page.document import document

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RECORDS = sorted((Path(__file__).resolve().parents[2] / "docs" / "reports").glob("*.json"))
#: The page of a site without one would be asked for.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Pages of the records of the gallery, and of a report that is made now."""
    where = tmp_path_factory.mktemp("reports")
    for path in RECORDS:
        text = document(json.loads(path.read_text(encoding="utf-8")))
        (where / f"{path.stem}.html").write_text(text, encoding="utf-8")
    made = al.report(al.Network(layers=1, tokens=3, rank=2), where / "made", effort="quick")
    assert made.complete, made.status
    return where


def test_the_gallery_has_six_models_of_today():
    records = [json.loads(path.read_text(encoding="utf-8")) for path in RECORDS]
    assert len({record["model"] for record in records}) == len(records) == 6
    assert all(path.stat().st_size < 200_000 for path in RECORDS)
    for record in records:
        main = next(part for part in record["parts"] if part["name"] == "thresholds")["outcomes"][0]
        assert main["state"] == "done" and main["numbers"]


def test_thresholds_of_the_gallery_are_those_of_today():
    """Of the models whose thresholds take seconds: the constructor in the record, computed again."""
    for path in RECORDS:
        record = json.loads(path.read_text(encoding="utf-8"))
        number = record["parts"][1]["outcomes"][0]["numbers"][0]
        if number["how"] == "monte-carlo" or "tokens=3" in record["python"]:
            continue
        again = al.threshold(eval(record["python"], {"al": al}))
        assert again.value is not None and again.error is not None
        assert abs(float(again.value) - float(number["value"])) <= again.error + number["error"] + 1e-15, path.stem


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_shows_every_report(folder, dark):
    pytest.importorskip("latex2mathml", reason="needs latex2mathml: pip install 'attnlimits[report]'")
    pages = [f"/{path.relative_to(folder)}" for path in sorted(folder.rglob("*.html")) if "harness" not in path.name]
    (folder / "pages.json").write_text(json.dumps(pages), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("report_harness.html"), folder / "harness.html")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    address = urlunsplit(("http", f"127.0.0.1:{server.server_port}", "/harness.html", "", ""))
    done = subprocess.run(
        [BROWSER, *flags, "--virtual-time-budget=600000", "--dump-dom", address],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    server.shutdown()
    server.server_close()
    said = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert said is not None and said[1], done.stderr[-2000:]
    found = json.loads(html.unescape(said[1]))
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line and "favicon" not in line] == []
    assert len(found) == 2 * len(pages) == 2 * (len(RECORDS) + 1)
    for page in found:
        about = (page["page"], page["width"], page)
        assert page["formulas"] >= 2 and page["pictures"] >= 1 and page["headings"] >= 8, about
        assert {page[name] for name in ("flat", "small", "unnamed", "dead")} == {0}, about
        assert page["overflow"] == 0, about
        assert page["tiny"] == 0, about
