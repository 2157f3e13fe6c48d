"""Fixed points of the state evolution q = F(alpha G(q)): found, followed along alpha, and given an error.

`evolve` is the entrance for networks and `link` for links; `solver`, `refined` and `continuation` are the ways to a
fixed point, `error` turns the error of the averages into that of the overlaps.
"""
