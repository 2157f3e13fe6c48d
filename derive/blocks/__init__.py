"""Networks as lists of blocks: each acts on the mixing state of the tokens and may bring indices of its own.

`protocol` says what a block is, `composition` puts a list of them together; one module holds each kind of block.
"""

from .attention import Attention
from .charts import composed_chart
from .composition import Composition, composition_of
from .correlation import Correlation
from .mlp import MLP
from .norm import Norm
from .output import Output
from .protocol import Block, Place, State
from .readout import Readout
from .residual import Residual

__all__ = [
    "MLP",
    "Attention",
    "Block",
    "Composition",
    "Correlation",
    "Norm",
    "Output",
    "Place",
    "Readout",
    "Residual",
    "State",
    "composed_chart",
    "composition_of",
]
