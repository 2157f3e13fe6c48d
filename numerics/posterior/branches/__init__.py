"""Outputs that finitely many indices give: all of these, and the posterior as a sum over them."""
