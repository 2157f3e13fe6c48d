"""Arithmetics beside float64: balls, fixed-point numbers of many words or digits, and pairs of float64.

Also the addresses of compiled functions. Nothing here knows of a model: each module may be changed freely as long as
its stated bounds of rounding hold.
"""
