"""What the theory says about a link of one's own, as plain text, LaTeX or a record: `attnlimits explain --link`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import sympy as sp

from ..links.reading import noise_of, outputs_of
from .lines import Line, Section, counted, equality, say, to_latex
from .written import as_latex, as_text

__all__ = ["DerivedLink", "link_record"]

_KINDS = {
    "discrete": "every output takes values that jump: y is discrete",
    "real": "every output varies with h: y has a density",
    "mixed": "y is discrete in some outputs and has a density in others",
}


@dataclass(frozen=True)
class DerivedLink:
    """What has been derived of a link.

    Attributes
    ----------
    text : str
        As the user wrote it.
    indices, tokens : int
        P and M.
    noise : str
        Variance of the noise of every output.
    kind : {"discrete", "real", "mixed"}
    regions : int
        On each of them y fixes entries of h by formulas.
    flips : tuple of tuple of int
        Changes of sign of the entries of h, token by token, that leave y as it is.
    exact : str or None
        Closed form of the threshold; `reason` why it holds, or why there is none.
    reason : str
    steps : mapping of tuple of int to str
        Closed forms of the thresholds that follow once the indices named, counted from 1, are known.
    label_noise : str, optional
        Probability that a label is replaced by one of the others, each as likely.
    labels : int, optional
        How many labels there are, where some are replaced.
    """

    text: str
    indices: int
    tokens: int
    noise: str
    kind: str
    regions: int
    flips: tuple[tuple[int, ...], ...]
    exact: str | None
    reason: str
    steps: Mapping[tuple[int, ...], str]
    label_noise: str = "0"
    labels: int = 0


def link_record(link: DerivedLink) -> dict[str, object]:
    """Return what the theory says about a link, as a record for JSON.

    Returns
    -------
    dict
        ``model`` (a sentence), ``P``, ``definitions`` (name, text, latex), ``symmetries`` (text, latex), ``sections``
        (title and lines), ``threshold`` (text, latex; None with a ``reason`` where no closed form is known),
        ``references``, ``text`` and ``latex``.

    References
    ----------
    troiani2025, (1), (9), (12), (15)-(16).
    """
    indices = "1 index" if link.indices == 1 else f"{link.indices} indices"
    headline = f"a link of {indices} and {counted(link.tokens, 'token')}"
    definitions, symmetries = _definitions(link), _symmetries(link)
    references = ["model: troiani2025, (1)", "channel and denoiser: troiani2025, (9), (12)"]
    references.append("threshold: troiani2025, (15)-(16)")
    sections = [
        Section("Link", [*definitions, _words(link), *_replaced(link)]),
        Section("Symmetries of the link", symmetries or [say("no change of signs of entries of h leaves y as it is")]),
        Section("Output channel at (omega, V)", _channel(link)),
        Section("Weak-recovery threshold", _threshold(link)),
        Section("References", [say(entry) for entry in references]),
    ]
    value = None if link.exact is None else sp.sympify(link.exact)
    threshold: dict[str, str | None] = {
        "text": link.exact,
        "latex": None if value is None else to_latex(value),
        "reason": link.reason,
    }
    return {
        "model": headline,
        "P": link.indices,
        "definitions": [
            {"name": line.text.split(" = ")[0], "text": line.text, "latex": line.latex} for line in definitions
        ],
        "symmetries": [{"text": line.text, "latex": line.latex} for line in symmetries],
        "sections": [{"title": s.title, "lines": [asdict(line) for line in s.lines]} for s in sections],
        "threshold": threshold,
        "references": references,
        "text": as_text(headline, sections),
        "latex": as_latex(headline, sections),
    }


def _definitions(link: DerivedLink) -> list[Line]:
    """The outputs; one that is alone has no number."""
    outputs = outputs_of(link.text)
    delta = noise_of(link.noise)
    text, tex = f" + sqrt({delta}) z", rf" + \sqrt{{{to_latex(delta)}}}\, z"
    lines = []
    for k, output in enumerate(outputs):
        number, tex_number = ("", "") if len(outputs) == 1 else (f"_{k + 1}", f"_{{{k + 1}}}")
        line = equality(f"y{number}", f"y{tex_number}", output)
        noise, tex_noise = (text + number, tex + tex_number) if delta else ("", "")
        lines.append(Line(line.text + noise, line.latex + tex_noise))
    return lines


def _words(link: DerivedLink) -> Line:
    shape = f"{link.indices} x {link.tokens}"
    about = f"h = W x / sqrt(D) has shape {shape}, with entries h_p_m of index p and token m"
    tex = (
        rf"$h = W x / \sqrt D$ has shape ${link.indices}\times {link.tokens}$, "
        r"with entries $h_{p,m}$ of index $p$ and token $m$"
    )
    kind = "" if noise_of(link.noise) else f"; {_KINDS[link.kind]}"
    return say(about + kind, tex + kind)


def _replaced(link: DerivedLink) -> list[Line]:
    """That labels are replaced, if some are."""
    if not link.labels:
        return []
    others = "the other label" if link.labels == 2 else f"one of the {link.labels - 1} other labels, each as likely"
    return [say(f"y is replaced by {others}, with probability {noise_of(link.label_noise)}")]


def _symmetries(link: DerivedLink) -> list[Line]:
    """Each change of signs by the entries that it changes."""
    lines = []
    for flip in link.flips:
        changed = [(k % link.indices + 1, k // link.indices + 1) for k, sign in enumerate(flip) if sign < 0]
        if changed:
            text = ", ".join(f"h_{p}_{m} -> -h_{p}_{m}" for p, m in changed)
            tex = ", ".join(rf"$h_{{{p},{m}}}\to -h_{{{p},{m}}}$" for p, m in changed)
            lines.append(say(text, tex))
    return lines


def _law(link: DerivedLink) -> tuple[str, str]:
    """The law of y given h, as text and in LaTeX."""
    if link.labels:
        other = noise_of(link.label_noise) / (link.labels - 1)
        own = 1 - link.labels * other
        return (
            f"({own} [y = g(h)] + {other})",
            rf"\left({to_latex(own)}\,\mathbf 1[y=g(h)] + {to_latex(other)}\right)",
        )
    if noise_of(link.noise):
        return "N(y; g(h), Delta)", r"\mathcal N(y;g(h),\Delta)"
    return "delta(y - g(h))", r"\delta(y-g(h))"


def _channel(link: DerivedLink) -> list[Line]:
    law, tex_law = _law(link)
    regions = (
        f"the entries of h are divided into {counted(link.regions, 'region')}, on each of which the link is smooth"
    )
    return [
        Line(
            f"Z_out(y; omega, V) = Int dh prod_m N(h_m; omega_m, V) {law}",
            rf"Z_{{\rm out}}(y;\omega,V) = \int dh\,\prod_m\mathcal N(h_m;\omega_m,V)\,{tex_law}",
        ),
        *([say(regions, regions.replace("of h ", "of $h$ "))] if link.regions else []),
        Line("g_out = V^-1 (E[h | y] - omega)", r"g_{\rm out} = V^{-1}\left(\mathbb E[h\mid y]-\omega\right)"),
    ]


def _threshold(link: DerivedLink) -> list[Line]:
    lines = [
        Line(
            "1/alpha_c = max over PSD M, |M| = 1, of |E_y sum_{mm'} G_mm' M G_mm'^T|, G = E[h h^T | y] - I at (0, I)",
            r"\alpha_c^{-1} = \max_{M\succeq0,\,\|M\|=1}"
            r"\left\|\mathbb E_y\sum_{mm'}G_{mm'}MG_{mm'}^\top\right\|,"
            r"\quad G = \mathbb E[hh^\top\mid y]-I\ \text{at}\ (0, I)",
        )
    ]
    if link.exact is None:
        lines.append(say("no closed form is derived here: `attnlimits threshold --link` evaluates it"))
    else:
        lines.append(equality("alpha_c", r"\alpha_c", sp.sympify(link.exact)))
        lines.append(say(f"proof: {link.reason}"))
    for known, exact in link.steps.items():
        rows = ", ".join(map(str, known))
        lines.append(say(f"of the other indices, where the rows {rows} of h are known:"))
        lines.append(equality("alpha_c", r"\alpha_c", sp.sympify(exact)))
    return lines
