"""Weak-recovery thresholds: where the operator (15) has norm 1/alpha, and the staircase that follows.

`exact` holds those known in closed form, `last_layer` and `first_layer` those of networks in float64, `pairs` and
`digits` the same to thirty and fifty digits, `enclosure` the proved intervals, `link` those of links.
"""
