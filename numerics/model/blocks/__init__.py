"""Networks as lists of blocks: their numbers, their words and their forward pass; `derive.blocks` has the formulas.

A new block is one file here and one in `derive.blocks`, a line of each registry, and a row of the grammar.
"""

from .attention import Attention
from .chain import Chain, chain_of
from .mlp import MLP
from .norm import Norm
from .readout import Output, Readout
from .residual import Residual

__all__ = ["MLP", "Attention", "Chain", "Norm", "Output", "Readout", "Residual", "chain_of"]
