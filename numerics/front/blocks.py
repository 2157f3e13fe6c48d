"""`al.blocks`: what networks are made of, in lists that `al.Network` takes."""

from attnlimits.numerics.model.blocks import MLP, Attention, Norm, Output, Readout, Residual

__all__ = ["MLP", "Attention", "Norm", "Output", "Readout", "Residual"]
