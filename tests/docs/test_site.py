"""The site builds without a warning, its links lead somewhere, and a browser shows every page as it is meant."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Targets of links and pictures of a page, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.targets += [found[key] for key in ("href", "src") if found.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("sphinx", reason="needs Sphinx: pip install 'attnlimits[docs]'")
    root, out = Path(__file__).resolve().parents[2], tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", str(out / "doctrees")]
    done = subprocess.run(
        [*command, ".", str(out / "html")], cwd=root, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def parsed(site) -> dict[str, Page]:
    return {
        str(path.relative_to(site)): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))
    }


def test_every_page_of_the_source_is_there(site, pages):
    missing = [page for page in pages if page != "README.md" and not (site / page).with_suffix(".html").exists()]
    assert missing == []


def test_every_link_leads_somewhere(site, parsed):
    broken, local = [], 0
    for name, page in parsed.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or target.startswith("//"):
                continue
            local += 1
            path = (site / name).parent / unquote(parts.path) if parts.path else site / name
            path = path / "index.html" if path.is_dir() else path
            there = str(path.resolve().relative_to(site.resolve()))
            if not path.exists() or (
                parts.fragment and there in parsed and parts.fragment not in parsed[there].anchors
            ):
                broken.append((name, target))
    assert broken == []
    assert local > 1000


def test_nothing_is_fetched_from_the_network(site):
    fetched = re.compile(r'<(?:script|img|link)\b[^>]*?\b(?:src|href)="(https?:)?//', re.I)
    assert [str(path) for path in site.rglob("*.html") if fetched.search(path.read_text(encoding="utf-8"))] == []


@pytest.fixture
def served(site) -> Iterator[str]:
    """The site on a port of this machine."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield urlunsplit(("http", f"127.0.0.1:{server.server_port}", "", "", ""))
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(BROWSER is None, reason="needs a browser: apt-get install chromium")
def test_a_browser_shows_every_page(site, parsed, served):
    opened = [f"/{name}" for name in parsed if name != "index.html" and not name.startswith("_")]
    opened = [*(name for name in opened if name != "/search.html"), "/search.html?q=overlap"]
    (site / "pages.json").write_text(json.dumps(opened), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("harness.html"), site / "harness.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    done = subprocess.run(
        [BROWSER, *flags, "--virtual-time-budget=3600000", "--dump-dom", f"{served}/harness.html"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    said = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)
    assert said is not None and said[1], done.stderr[-2000:]
    found = json.loads(html.unescape(said[1]))
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert [page["page"] for page in found] == opened
    assert [page for page in found if page["missing"] or page["wrong"]] == []
    assert [page for page in found if page["typeset"] != page["formulas"]] == []
    assert [(page["page"], page["overflow"]) for page in found if page["overflow"] > 0] == []
    assert found[-1]["results"] > 5
    totals = {key: sum(page[key] for page in found) for key in ("formulas", "images")}
    print(f"{len(found)} pages, {totals['formulas']} formulas, {totals['images']} images")
    assert totals["formulas"] > 300 and totals["images"] > 20
