"""Kinds of models that routes tell apart: each of these functions says whether an object is a model of its kind."""

import math

from .activations import ScoreFunction
from .links import LinkKernel
from .network import Network

__all__ = [
    "any_layer",
    "balls",
    "branched",
    "closed_layer",
    "deep",
    "deep_softmax",
    "derivable",
    "float64",
    "link",
    "on_chart",
    "one_index",
    "operator_on_chart",
    "pairs",
    "posterior_on_chart",
    "rank_one",
    "rotated_layer",
    "scores",
    "several_layers",
    "tied",
    "tied_layer",
    "two_by_two",
    "two_linear",
    "two_softmax",
    "untied_layer",
]

# The greatest rank of layers over two tokens whose densities float64 holds.
_MOST_RANK = 64
# The longest range of the logarithm of a mixing matrix that sums over two tokens resolve.
_LONGEST = 200.0


def tied(model: object) -> bool:
    """Attention of the main text: tied, one head, output of the last layer."""
    return isinstance(model, Network) and model.tied and model.single


def rank_one(model: object) -> bool:
    """Tied layers of one index each."""
    return isinstance(model, Network) and tied(model) and set(model.ranks) == {1}


def one_index(model: object) -> bool:
    """A single tied layer of rank 1."""
    return isinstance(model, Network) and tied(model) and model.indices == 1


def rotated_layer(model: object) -> bool:
    """A tied layer of rank 2 or 3, whose output leaves rotations free."""
    return isinstance(model, Network) and tied(model) and model.layers == 1 and 2 <= model.indices <= 3


def tied_layer(model: object) -> bool:
    """A tied layer of rank 1 to 3."""
    return one_index(model) or rotated_layer(model)


def untied_layer(model: object) -> bool:
    """A single layer with keys and queries of rank 1."""
    return isinstance(model, Network) and not model.tied and model.single and model.layers == 1 and model.rank == 1


def any_layer(model: object) -> bool:
    """A single layer of one head, seen without noise."""
    return isinstance(model, Network) and model.single and model.layers == 1


def two_by_two(model: object) -> bool:
    """Two tied layers of rank 1 over two tokens."""
    return isinstance(model, Network) and rank_one(model) and model.layers == model.tokens == 2


def two_softmax(model: object) -> bool:
    """Two such layers of softmax."""
    return isinstance(model, Network) and two_by_two(model) and model.activation == "softmax"


def two_linear(model: object) -> bool:
    """Two such layers of linear attention."""
    return isinstance(model, Network) and two_by_two(model) and model.activation == "linear"


def deep_softmax(model: object) -> bool:
    """Three or more tied softmax layers of rank 1 over two tokens."""
    if not (isinstance(model, Network) and rank_one(model)):
        return False
    return model.layers > 2 and model.tokens == 2 and model.activation == "softmax"


def deep(model: object) -> bool:
    """Several layers of any kind."""
    return isinstance(model, Network) and model.layers > 1


def several_layers(model: object) -> bool:
    """Several tied layers of rank 1."""
    return isinstance(model, Network) and rank_one(model) and model.layers > 1


def _shares(model: Network) -> bool:
    """All tokens that leave several softmax layers over two; of untied ones c >= 1 (`derive.sequence_shares`)."""
    sequence = model.output == "sequence" and model.layers > 1 and model.heads == 1 and model.tokens == 2
    return sequence and model.activation == "softmax" and (model.tied or model.skip >= 1)


def branched(model: object) -> bool:
    """Outputs that finitely many indices give."""
    return isinstance(model, Network) and model.branched


def posterior_on_chart(model: object) -> bool:
    """Output from which what is left open of the indices has coordinates (`derive.charts`), or that has noise."""
    if not isinstance(model, Network):
        return False
    if model.chain is not None:
        return model.noise > 0 or model.chain.shown.charted
    if branched(model):
        return True
    own = isinstance(model.activation, ScoreFunction)
    # Deeper linear layers leave nodes that are worth too little.
    if not (own or model.activation == "softmax" or (model.activation == "linear" and model.layers <= 2)):
        return False
    if model.noise or _shares(model):
        return True
    return model.output == "last" and (model.layers > 1 or not (own or model.heads > 1 or one_index(model)))


def on_chart(model: object) -> bool:
    """The same, of rows that symmetries keep apart: those of planted overlaps are not."""
    planted = isinstance(model, Network) and model.chain is not None and model.chain.planted
    return posterior_on_chart(model) and not planted


def closed_layer(model: object) -> bool:
    """One layer whose threshold has a closed form; an output of untied layers of higher rank leaves GL(r) free."""
    return isinstance(model, Network) and any_layer(model) and (model.tied or model.rank == 1)


def operator_on_chart(model: object) -> bool:
    """A model on a chart, whose threshold has no closed form."""
    return isinstance(model, Network) and on_chart(model) and not closed_layer(model)


def derivable(model: object) -> bool:
    """Any architecture whose activation has a name."""
    return isinstance(model, Network) and (model.chain is not None or not callable(model.activation))


def balls(model: object) -> bool:
    """Two layers whose integrals go by ball arithmetic."""
    if not (isinstance(model, Network) and rank_one(model)):
        return False
    return model.layers == 2 and (model.tokens == 2 or model.activation == "linear")


def pairs(model: object) -> bool:
    """Layers whose integrals go by pairs of float64."""
    if not (isinstance(model, Network) and several_layers(model)):
        return False
    if model.activation == "softmax":
        return model.tokens == 2 or (model.tokens == 3 and model.layers == 2)
    return model.tokens == 2 and model.layers == 3


def float64(model: object) -> bool:
    """Tied layers over two tokens whose sums float64 holds."""
    if not (isinstance(model, Network) and tied(model) and model.layers > 1 and model.tokens == 2):
        return False
    if model.activation == "softmax":
        return max(model.ranks) <= _MOST_RANK
    return rank_one(model) and model.layers != 3


def scores(model: object) -> bool:
    """Softmax layers of two tokens with keys and queries, whose mixing matrix is not too near to a singular one."""
    if not (isinstance(model, Network) and model.single and not model.tied and model.activation == "softmax"):
        return False
    if model.layers == 1 or model.tokens != 2 or max(model.ranks) > _MOST_RANK:
        return False
    # log |T| is spread over this, from the tails of the scores and where c + tau may vanish.
    steepest = model.beta * (1 + model.skip) ** (2 * model.layers - 4) * (38 + 2 * max(model.ranks))
    distance = abs(model.skip - 1) / (model.skip + 1)
    return (model.layers - 1) * min(steepest, 28 - math.log(max(distance, 1e-300))) <= _LONGEST


def link(model: object) -> bool:
    """A link y = g(h)."""
    return isinstance(model, LinkKernel)
