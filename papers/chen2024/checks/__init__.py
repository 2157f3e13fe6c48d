"""Checks of the equations of chen2024, one file per theme.

Each check takes no argument and returns a `CheckOutcome`; ``equations.toml`` names the check of every entry
and `attnlimits.derive.registry` runs them.
"""
