"""Sections of a page as plain text, and as a LaTeX document."""

from collections.abc import Sequence

from .lines import Section, say

__all__ = ["as_latex", "as_text", "with_section"]

_BEGIN = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{amsmath,amssymb}
\usepackage[margin=2.5cm]{geometry}
\setlength{\parindent}{0pt}
\allowdisplaybreaks
\begin{document}
"""
_END = "\n\\end{document}"
# What plain words hold and LaTeX reads as commands.
_SPECIAL = {"^": r"\^{}", "~": r"\~{}"} | {c: rf"\{c}" for c in "_%&#"} | {c: f"${c}$" for c in "<>|"}


def as_text(headline: str, sections: Sequence[Section]) -> str:
    """Write a page as plain text."""
    lines = [headline[0].upper() + headline[1:]]
    for section in sections:
        lines += ["", section.title]
        lines += [f"  {line.text}" if not line.formula else f"    {line.text}" for line in section.lines]
    return "\n".join(lines)


def as_latex(headline: str, sections: Sequence[Section]) -> str:
    """Write a page as a LaTeX document, which needs amsmath, amssymb and geometry."""
    title = _escaped(headline)
    lines = [rf"\section*{{{title[0].upper() + title[1:]}}}"]
    for section in sections:
        lines += ["", rf"\subsection*{{{_escaped(section.title)}}}"]
        formulas: list[str] = []
        for line in (*section.lines, say("")):
            if line.formula:
                formulas.append(line.latex)
                continue
            if formulas:
                # One display per run of formulas, aligned at the first relation.
                rows = [f"  &{formula}" for formula in formulas]
                lines += [r"\begin{align*}", " \\\\\n".join(rows), r"\end{align*}"]
                formulas = []
            if line.latex:
                lines.append(_escaped(line.latex) + r"\par")
    return _BEGIN + "\n".join(lines) + _END


def with_section(page: str, title: str, line: str) -> str:
    """Add a section of one line to a page of either kind."""
    if not page.endswith(_END):
        return f"{page}\n\n{title}\n  {line}"
    return page.removesuffix(_END) + f"\n\n\\subsection*{{{_escaped(title)}}}\n{_escaped(line)}\\par" + _END


def _escaped(text: str) -> str:
    """Plain words without characters that LaTeX reads as commands; formulas between dollars stay as they are."""
    parts = text.split("$")
    return "$".join(
        part if number % 2 else "".join(_SPECIAL.get(character, character) for character in part)
        for number, part in enumerate(parts)
    )
