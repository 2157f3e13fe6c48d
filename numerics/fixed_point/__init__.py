"""Fixed points of the state evolution q = F(alpha G(q)): found, followed along alpha, and given an error.

`evolve` is the entrance for networks and `link` for links. `balance` has the equations that all of them solve, `state`
what strategies take and give; the strategies are `iteration`, `refinement` (Newton's method), `faces` (links) and
`continuation`. `growth` lets layers join and leave, `postprocess` and `error` give the error of what was found.
"""
