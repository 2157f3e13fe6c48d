"""The style of a page: light and dark, on a phone, and on paper."""

__all__ = ["SERIES", "STYLE"]

#: Number of colours of curves, `--series-1` and so on; told apart by colour-blind readers, with dashes beside them.
SERIES = 6

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1b1f; --quiet: #55555e; --paper: #fdfdfc; --panel: #f2f2ee; --rule: #d6d6cf; --link: #1f4e9c;
  --warn: #8a4b00;
  --series-1: #b3261e; --series-2: #1f4e9c; --series-3: #2e7d32; --series-4: #8e24aa; --series-5: #b35900;
  --series-6: #00707a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e8e8e4; --quiet: #a9a9b2; --paper: #17181b; --panel: #212327; --rule: #3a3d43; --link: #9dc1ff;
    --warn: #ffb86b;
    --series-1: #ff8a80; --series-2: #82b1ff; --series-3: #81c995; --series-4: #d7a6ff; --series-5: #ffb366;
    --series-6: #5fd3dd;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.25rem; max-width: 52rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .4rem 0; }
a { color: var(--link); }
a.skip { position: absolute; left: -100rem; }
a.skip:focus { position: static; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1rem; list-style: none; padding: 0; margin: .75rem 0; }
.quiet { color: var(--quiet); font-size: .9rem; }
.missing { color: var(--warn); border-left: 3px solid var(--warn); padding-left: .6rem; }
.main-number { font-size: 1.3rem; margin: .75rem 0 .25rem; }
.scroll, .formula, pre { overflow-x: auto; }
.formula { padding: .15rem 0; }
math { font-size: 1.05em; }
math[display="block"] { text-align: left; margin: .3rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: var(--quiet); padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; font-size: .85em; }
pre { background: var(--panel); padding: .6rem; border-radius: .3rem; }
td code { overflow-wrap: anywhere; }
figure { margin: 1rem 0; }
figure svg { display: block; width: 100%; max-width: 40rem; height: auto; color: var(--ink); }
figure svg text { font-family: system-ui, -apple-system, "Segoe UI", sans-serif !important; }
figcaption { font-size: .9rem; color: var(--quiet); }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--link); }
footer { margin-top: 2.5rem; border-top: 1px solid var(--rule); padding-top: .75rem; }
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  figure, tr, .formula { break-inside: avoid; }
  figure svg { max-width: 14cm; }
  .scroll, .formula, pre { overflow: visible; white-space: pre-wrap; }
}
"""
