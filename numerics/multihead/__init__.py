"""Learning a multi-head attention layer from random examples of its inputs and outputs."""
