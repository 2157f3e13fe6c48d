"""Which computation serves which model: the one place that knows, for dispatch, refusals and tables.

A route is a way from a model to the numbers of a verb.  `serving` lists those of a model, the preferred first;
`require` refuses a model that has none, with what there is instead.
"""

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from ..core.errors import KernelNotFoundError
from ..core.results import How
from .activations import ScoreFunction
from .flags import flags_of
from .links import LinkKernel
from .network import Network
from .refusals import REFUSALS

__all__ = [
    "BALLS",
    "DEEP_QUADRATURE",
    "DERIVED_SLOPES",
    "FLOAT64",
    "LINK",
    "MOST_RANK",
    "PAIRS",
    "ROUTES",
    "SAMPLED_LAYERS",
    "SCORES",
    "TWO_LAYER_QUADRATURE",
    "Route",
    "preferred",
    "require",
    "serving",
]


#: The greatest rank of layers over two tokens whose densities float64 holds.
MOST_RANK = 64
# The longest range of the logarithm of a mixing matrix that sums over two tokens resolve.
_LONGEST = 200.0


@dataclass(frozen=True)
class Route:
    """One way from a model to the numbers of a verb.

    Attributes
    ----------
    verb : str
        What is computed.
    name : str
        How.
    serves : callable
        Whether it takes a model; False of any other object.
    how : {"rigorous", "estimated", "monte-carlo"}
        Kind of its error.
    note : str
        What limits it.
    posterior : str
        Class of the posteriors given data, in `numerics.posterior`; empty where the verb asks for none.
    """

    verb: str
    name: str
    serves: Callable[[object], bool]
    how: How
    note: str = ""
    posterior: str = ""


def _tied(model: object) -> bool:
    """Attention of the main text: tied, one head, output of the last layer."""
    return isinstance(model, Network) and model.tied and model.single


def _rank_one(model: object) -> bool:
    return isinstance(model, Network) and _tied(model) and set(model.ranks) == {1}


def _one_index(model: object) -> bool:
    return isinstance(model, Network) and _tied(model) and model.indices == 1


def _rotated_layer(model: object) -> bool:
    return isinstance(model, Network) and _tied(model) and model.layers == 1 and 2 <= model.indices <= 3


def _tied_layer(model: object) -> bool:
    return _one_index(model) or _rotated_layer(model)


def _untied_layer(model: object) -> bool:
    return isinstance(model, Network) and not model.tied and model.single and model.layers == 1 and model.rank == 1


def _any_layer(model: object) -> bool:
    return isinstance(model, Network) and model.single and model.layers == 1


def _two_by_two(model: object) -> bool:
    return isinstance(model, Network) and _rank_one(model) and model.layers == model.tokens == 2


def _two_softmax(model: object) -> bool:
    return isinstance(model, Network) and _two_by_two(model) and model.activation == "softmax"


def _deep_softmax(model: object) -> bool:
    if not (isinstance(model, Network) and _rank_one(model)):
        return False
    return model.layers > 2 and model.tokens == 2 and model.activation == "softmax"


def _several_layers(model: object) -> bool:
    return isinstance(model, Network) and _rank_one(model) and model.layers > 1


def _shares(model: Network) -> bool:
    """All tokens that leave several softmax layers over two; of untied ones c >= 1 (`derive.sequence_shares`)."""
    sequence = model.output == "sequence" and model.layers > 1 and model.heads == 1 and model.tokens == 2
    return sequence and model.activation == "softmax" and (model.tied or model.skip >= 1)


def _on_chart(model: object) -> bool:
    """Output from which what is left open of the indices has coordinates (`derive.charts`), or that has noise."""
    if not isinstance(model, Network):
        return False
    own = isinstance(model.activation, ScoreFunction)
    # Deeper linear layers leave nodes that are worth too little.
    if not (own or model.activation == "softmax" or (model.activation == "linear" and model.layers <= 2)):
        return False
    if model.noise or _shares(model):
        return True
    return model.output == "last" and (model.layers > 1 or not (own or model.heads > 1 or _one_index(model)))


def _closed_layer(model: object) -> bool:
    """One layer whose threshold has a closed form; an output of untied layers of higher rank leaves GL(r) free."""
    return isinstance(model, Network) and _any_layer(model) and (model.tied or model.rank == 1)


def _operator_on_chart(model: object) -> bool:
    return isinstance(model, Network) and _on_chart(model) and not _closed_layer(model)


def _derivable(model: object) -> bool:
    """Any architecture whose activation has a name."""
    return isinstance(model, Network) and not callable(model.activation)


def _balls(model: object) -> bool:
    if not (isinstance(model, Network) and _rank_one(model)):
        return False
    return model.layers == 2 and (model.tokens == 2 or model.activation == "linear")


def _pairs(model: object) -> bool:
    if not (isinstance(model, Network) and _several_layers(model)):
        return False
    if model.activation == "softmax":
        return model.tokens == 2 or (model.tokens == 3 and model.layers == 2)
    return model.tokens == 2 and model.layers == 3


def _float64(model: object) -> bool:
    if not (isinstance(model, Network) and _tied(model) and model.layers > 1 and model.tokens == 2):
        return False
    if model.activation == "softmax":
        return max(model.ranks) <= MOST_RANK
    return _rank_one(model) and model.layers != 3


def _scores(model: object) -> bool:
    """Softmax layers of two tokens with keys and queries, whose mixing matrix is not too near to a singular one."""
    if not (isinstance(model, Network) and model.single and not model.tied and model.activation == "softmax"):
        return False
    if model.layers == 1 or model.tokens != 2 or max(model.ranks) > MOST_RANK:
        return False
    # log |T| is spread over this, from the tails of the scores and where c + tau may vanish.
    steepest = model.beta * (1 + model.skip) ** (2 * model.layers - 4) * (38 + 2 * max(model.ranks))
    distance = abs(model.skip - 1) / (model.skip + 1)
    return (model.layers - 1) * min(steepest, 28 - math.log(max(distance, 1e-300))) <= _LONGEST


def _link(model: object) -> bool:
    return isinstance(model, LinkKernel)


def _verb(verb: str, *routes: Route) -> tuple[Route, ...]:
    """The same routes of another verb."""
    return tuple(replace(route, verb=verb) for route in routes)


FLOAT64 = Route(
    "last layer",
    "sums in float64",
    _float64,
    "estimated",
    "to 13 digits (linear layers with L >= 4: 1 or 2 digits)",
)
SCORES = Route("last layer", "sums over scores of keys and queries", _scores, "estimated", "to 12 digits")
BALLS = Route("last layer", "sums in ball arithmetic", _balls, "estimated", "to 50 digits")
PAIRS = Route("last layer", "sums in pairs of float64", _pairs, "estimated", "to 22 digits, which take minutes")
TWO_LAYER_QUADRATURE = Route("evolve", "quadrature over two layers", _two_softmax, "estimated")
DEEP_QUADRATURE = Route("evolve", "quadrature over three or more layers", _deep_softmax, "estimated")
SAMPLED_LAYERS = Route(
    "evolve", "sampled posterior", _several_layers, "monte-carlo", posterior="data.deep.DeepPosterior"
)
CHART = Route("evolve", "posterior sampled on a chart", _on_chart, "monte-carlo")
CHART_OPERATOR = Route(
    "last layer",
    "operator by a posterior sampled on a chart",
    _operator_on_chart,
    "monte-carlo",
    "sampled, about 2 digits",
)
DERIVED_SLOPES = Route("descend", "slopes derived for the architecture", _derivable, "estimated")
LINK = Route(
    "gamp", "link", _link, "estimated", "sampled where no quadrature serves the link", "data.link.LinkPosterior"
)

_ONE_INDEX = Route("evolve", "quadrature over one index", _one_index, "estimated")
_ONE_LAYER = (
    _ONE_INDEX,
    Route(
        "evolve",
        "fibre of one tied layer",
        _rotated_layer,
        "monte-carlo",
        "posterior sampled over the indices that give the output, rank 2 and 3",
        "data.fibre.TiedPosterior",
    ),
    Route(
        "evolve",
        "fibre of one untied layer",
        _untied_layer,
        "monte-carlo",
        "posterior sampled over the indices that give the output, rank 1",
        "data.fibre.UntiedPosterior",
    ),
)
_AVERAGES = (
    *_ONE_LAYER,
    TWO_LAYER_QUADRATURE,
    DEEP_QUADRATURE,
    Route("evolve", "outputs sampled, posterior by quadrature", _two_by_two, "monte-carlo"),
    SAMPLED_LAYERS,
)

#: All routes; of each verb the preferred ones first.
ROUTES: tuple[Route, ...] = (
    Route("last layer", "closed form of one layer", _closed_layer, "estimated", "to 40 digits"),
    FLOAT64,
    SCORES,
    BALLS,
    PAIRS,
    CHART_OPERATOR,
    Route("first layer", "quadrature over two layers", _two_softmax, "estimated", "to 8 digits"),
    Route("first layer", "sampled averages", _two_by_two, "monte-carlo"),
    Route("enclosure", "interval arithmetic", _two_softmax, "rigorous", "0.3 <= c <= 10, 0.1 <= beta <= 10"),
    *_AVERAGES,
    CHART,
    *_verb("curve", *_AVERAGES, CHART),
    *_verb("free energy", *_AVERAGES, CHART, LINK),
    Route("denoise", "two points of one layer", _one_index, "estimated"),
    Route("denoise", "integral over the first of two layers", _two_by_two, "estimated"),
    replace(CHART, verb="denoise-sampled", note="about 2 digits"),
    Route("denoise-mp", "readout row to many digits", _rank_one, "estimated", "to 200 digits, fewer for deep networks"),
    Route("readout", "pairs of tokens", _rank_one, "estimated"),
    Route("fibre", "rotations of one tied layer", _tied_layer, "estimated", "rank 1, 2, 3"),
    Route("fibre", "scales of one untied layer", _untied_layer, "estimated", "rank 1"),
    Route(
        "gamp",
        "posterior by quadrature",
        lambda model: _one_index(model) or _two_by_two(model),
        "estimated",
        posterior="data.readout.ReadoutPosterior",
    ),
    *_verb("gamp", *_ONE_LAYER[1:]),
    replace(CHART, verb="gamp", posterior="data.chart.ChartedPosterior"),
    replace(SAMPLED_LAYERS, verb="gamp"),
    LINK,
    Route("descend", "slopes through all layers", _tied, "estimated"),
    Route("descend", "slopes of keys and queries", lambda model: _any_layer(model) and not _tied(model), "estimated"),
    DERIVED_SLOPES,
    replace(LINK, verb="descend"),
)


def serving(verb: str, model: object) -> tuple[Route, ...]:
    """Routes of a verb that take a model, the preferred first."""
    return tuple(route for route in ROUTES if route.verb == verb and route.serves(model))


def preferred(verb: str, model: object) -> Route | None:
    """The first route of a verb that takes a model."""
    return next(iter(serving(verb, model)), None)


def require(verb: str, model: object) -> Route:
    """Return the preferred route of a verb for a model.

    Raises
    ------
    KernelNotFoundError
        There is none; the message says what is served.
    """
    if (found := preferred(verb, model)) is not None:
        return found
    name = model.describe() if isinstance(model, Network | LinkKernel) else type(model).__name__
    layer = name
    if isinstance(model, Network) and _any_layer(model):
        layer = f"rank {model.rank}, {'tied' if model.tied else 'untied'}"
    instead = _nearest(verb, model) if isinstance(model, Network) and verb in _COMMANDS else ""
    raise KernelNotFoundError(REFUSALS[verb].format(model=name, layer=layer) + instead)


#: Commands of the verbs that have one.
_COMMANDS = {
    "last layer": "threshold",
    "first layer": "threshold --layer 1",
    "enclosure": "threshold --rigorous",
    "evolve": "evolve --alpha 1",
    "curve": "curve --from 0 --to 1",
    "free energy": "free-energy --alpha 1",
    "gamp": "gamp --alpha 2 --dimension 500",
    "descend": "descend --alpha 2 --dimension 500",
}
# What a model that is served may differ in, the least change first.
_CHANGES: tuple[Callable[[Network], Network], ...] = (
    lambda model: replace(model, tied=True),
    lambda model: replace(model, rank=1),
    lambda model: replace(model, activation="softmax"),
    lambda model: replace(model, tokens=2),
    lambda model: replace(model, layers=2, rank=1),
    lambda model: replace(model, layers=1, rank=1),
)


def _nearest(verb: str, model: Network) -> str:
    """The model with the fewest changes that a verb serves, and its command; empty if there is none."""
    for size in range(len(_CHANGES)):
        for chosen in combinations(_CHANGES, size):
            near = reduce(lambda network, change: change(network), chosen, model.one_head)
            if preferred(verb, near):
                flags = shlex.join(flags_of(near, ("layers", "tokens")) or ())
                return f"; the nearest that is served: `attnlimits {_COMMANDS[verb]} {flags}`"
    return ""
