"""`explain`: a LaTeX document that compiles, and links of one's own."""

import re
import shutil
import subprocess

import pytest

import attnlimits as al

PAGES = [
    "-L 2 --untied --heads 2 --no-number",
    "-L 3 -M 3 --output sequence",
    '-L 1 --activation "tanh(z)"',
    "-L 2 -r 2 -c 1/3 -b 2.5",
    '--link "h[1]**2 + sign(h[1]*h[2]*h[3])" --noise 1/3',
    '--link "[sign(h[1,1]*h[1,2]), abs(h[2,1])]"',
    '--link "softmax(h[1], h[2])"',
]


@pytest.mark.parametrize("flags", PAGES)
def test_the_document_is_whole(attnlimits, flags):
    said = attnlimits(f"explain {flags} --latex")
    assert said.status == 0, said.err
    assert said.out.startswith("\\documentclass{article}\n") and said.out.endswith("\\end{document}\n")
    opened: list[str] = []
    for verb, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", said.out):
        assert verb == "begin" or opened.pop() == name
        opened += [name] if verb == "begin" else []
    assert opened == []
    body = said.out.partition("\\begin{document}")[2]
    # An empty line, or one that begins a display twice, ends a formula early.
    assert "\n\n\\end{align*}" not in body and body.count("$") % 2 == 0


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_the_documents_compile(attnlimits, tmp_path):
    for number, flags in enumerate(PAGES):
        page = tmp_path / f"page{number}.tex"
        page.write_text(attnlimits(f"explain {flags} --latex").out, encoding="utf-8")
        done = subprocess.run(
            ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", page.name],
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, flags + done.stdout.decode(errors="replace")[-2000:]
        assert page.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_a_link_is_explained(attnlimits):
    said = attnlimits('explain --link "abs(h[1])"')
    assert said.status == 0
    for words in ("y = Abs(h_1_1)", "h_1_1 -> -h_1_1", "alpha_c = 1/2", "proof: y fixes h h^T"):
        assert words in said.out
    page = attnlimits('explain --link "abs(h[1])" --no-number').out
    assert al.explain(al.Link("abs(h[1])")) == page.rstrip("\n")
    assert said.out.startswith(page.rstrip("\n")) and "alpha_c of index 1 = 0.5000" in said.out
    # The closed form is the one that the threshold has.
    link = al.Link("[sign(h[1,1]*h[1,2]), abs(h[2,1])]")
    assert f"alpha_c = {al.threshold(link).exact}\n" in al.explain(link)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ('--link "h[1]**2" --layers 3', "--layers describes a model"),
        ('--link "h[1]**2" --untied', "--untied describes a model"),
        ("--noise 0.1", "--noise belongs to --link"),
        ('--link "h[1"', "h[1"),
    ],
)
def test_what_is_no_link_is_refused(attnlimits, flags, words):
    said = attnlimits(f"explain {flags}")
    assert (said.status, said.out, len(said.lines_of_error)) == (2, "", 1) and words in said.err


def test_the_formats_of_a_link():
    with pytest.raises(ValueError, match="fmt must be text or latex"):
        al.explain(al.Link("abs(h[1])"), "html")
