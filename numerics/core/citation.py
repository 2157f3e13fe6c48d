"""What to cite: this software, and the papers whose theory a number comes from, as BibTeX."""

import re
from importlib.metadata import version
from importlib.resources import files

__all__ = ["cite"]

_PAPERS = ("troiani2025", "boncoraglio2025", "chen2024")
_OURS = """@software{{attnlimits,
  author  = {{{{The attnlimits developers}}}},
  title   = {{attnlimits: exact theory of what attention networks can learn}},
  version = {{{version}}}
}}"""


def cite(*keys: str) -> str:
    """BibTeX entries of this software and of the papers it computes.

    Parameters
    ----------
    keys : str
        Citekeys; by default that of the theory of attention networks, troiani2025.

    Raises
    ------
    ValueError
        No paper of that key.

    Examples
    --------
    >>> print(cite().splitlines()[0])
    @software{attnlimits,
    """
    entries = [_OURS.format(version=version("attnlimits"))]
    for key in keys or _PAPERS[:1]:
        if key not in _PAPERS:
            raise ValueError(f"no paper {key!r}; there are {', '.join(_PAPERS)}")
        text = files("attnlimits.papers").joinpath(key, "refs.bib").read_text(encoding="utf-8")
        found = re.search(rf"^@\w+\{{{key},.*?^\}}", text, re.MULTILINE | re.DOTALL)
        assert found is not None, key
        entries.append(found[0])
    return "\n\n".join(entries)
