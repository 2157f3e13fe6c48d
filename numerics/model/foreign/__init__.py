"""Attention layers of other libraries, read by their attributes and parameters, as networks of this one.

A library's reader makes an `AttentionLayer` of what it finds, and `described` the network of these; none is imported.
"""

from .attention import AttentionLayer
from .described import Described
from .described import describe as describe
from .flax_params import flax_layers
from .torch_modules import torch_layers

__all__ = ["AttentionLayer", "Described", "describe", "flax_layers", "torch_layers"]
