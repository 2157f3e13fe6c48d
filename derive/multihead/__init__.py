"""The multi-head attention layer: its derivatives, what its outputs determine, and the parities it can carry."""
