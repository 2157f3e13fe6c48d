"""Which computation serves which model: the one place that knows, for dispatch, refusals and tables.

A route is a way from a model to the numbers of a verb.  `serving` lists those of a model, the preferred first;
`require` refuses a model that has none, with what there is instead.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations

from ..core.errors import KernelNotFoundError
from ..core.results import How
from . import kinds
from .blocks import Chain
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


def _verb(verb: str, *routes: Route) -> tuple[Route, ...]:
    """The same routes of another verb."""
    return tuple(replace(route, verb=verb) for route in routes)


FLOAT64 = Route(
    "last layer",
    "sums in float64",
    kinds.float64,
    "estimated",
    "to 13 digits (linear layers with L >= 4: 1 or 2 digits)",
)
SCORES = Route("last layer", "sums over scores of keys and queries", kinds.scores, "estimated", "to 12 digits")
BALLS = Route("last layer", "sums in ball arithmetic", kinds.balls, "estimated", "to 50 digits")
PAIRS = Route("last layer", "sums in pairs of float64", kinds.pairs, "estimated", "to 22 digits, which take minutes")
TWO_LAYER_QUADRATURE = Route("evolve", "quadrature over two layers", kinds.two_by_two, "estimated")
DEEP_QUADRATURE = Route("evolve", "quadrature over three or more layers", kinds.deep_softmax, "estimated")
SAMPLED_LAYERS = Route(
    "evolve", "sampled posterior", kinds.several_layers, "monte-carlo", posterior="data.deep.DeepPosterior"
)
CHART = Route("evolve", "posterior sampled on a chart", kinds.on_chart, "monte-carlo")
CHART_OPERATOR = Route(
    "last layer",
    "operator by a posterior sampled on a chart",
    kinds.operator_on_chart,
    "monte-carlo",
    "sampled, about 2 digits",
)
DERIVED_SLOPES = Route("descend", "slopes derived for the architecture", kinds.derivable, "estimated")
LINK = Route(
    "gamp", "link", kinds.link, "estimated", "sampled where no quadrature serves the link", "data.link.LinkPosterior"
)

_BRANCHES = Route(
    "denoise-sampled", "posterior as a sum over all indices that give the output", kinds.branched, "estimated"
)
_ONE_INDEX = Route("evolve", "quadrature over one index", kinds.one_index, "estimated")
_ONE_LAYER = (
    _ONE_INDEX,
    Route(
        "evolve",
        "fibre of one tied layer",
        kinds.rotated_layer,
        "monte-carlo",
        "posterior sampled over the indices that give the output, rank 2 and 3",
        "data.fibre.TiedPosterior",
    ),
    Route(
        "evolve",
        "fibre of one untied layer",
        kinds.untied_layer,
        "monte-carlo",
        "posterior sampled over the indices that give the output, rank 1",
        "data.fibre.UntiedPosterior",
    ),
)
_AVERAGES = (
    *_ONE_LAYER,
    TWO_LAYER_QUADRATURE,
    DEEP_QUADRATURE,
    Route("evolve", "outputs sampled, posterior by quadrature", kinds.two_by_two, "monte-carlo"),
    CHART,
    SAMPLED_LAYERS,
)

#: All routes; of each verb the preferred ones first.
ROUTES: tuple[Route, ...] = (
    Route("last layer", "closed form of one layer", kinds.closed_layer, "estimated", "to 40 digits"),
    FLOAT64,
    SCORES,
    BALLS,
    PAIRS,
    CHART_OPERATOR,
    Route("first layer", "quadrature over two softmax layers", kinds.two_softmax, "estimated", "to 8 digits"),
    Route("first layer", "quadrature over two linear layers", kinds.two_linear, "estimated", "to 10 digits"),
    Route("first layer", "sampled averages", kinds.two_by_two, "monte-carlo"),
    Route(
        "hidden layer",
        "growth at fixed points of sampled averages",
        lambda model: kinds.deep(model) and any(route.serves(model) for route in _AVERAGES),
        "monte-carlo",
        "sampled, about 2 digits",
    ),
    Route("enclosure", "interval arithmetic", kinds.two_softmax, "rigorous", "0.3 <= c <= 10, 0.1 <= beta <= 10"),
    *_AVERAGES,
    *_verb("curve", *_AVERAGES),
    *_verb("free energy", *_AVERAGES, LINK),
    Route("denoise", "two points of one layer", kinds.one_index, "estimated"),
    Route("denoise", "integral over the first of two layers", kinds.two_by_two, "estimated"),
    _BRANCHES,
    replace(CHART, verb="denoise-sampled", serves=kinds.posterior_on_chart, note="about 2 digits"),
    Route(
        "denoise-mp",
        "readout row to many digits",
        kinds.rank_one,
        "estimated",
        "to 200 digits, fewer for deep networks",
    ),
    Route("readout", "pairs of tokens", kinds.rank_one, "estimated"),
    Route("fibre", "rotations of one tied layer", kinds.tied_layer, "estimated", "to 12 digits"),
    Route("fibre", "scales of one untied layer", kinds.untied_layer, "estimated", "to 12 digits"),
    Route(
        "gamp",
        "posterior by quadrature",
        lambda model: kinds.one_index(model) or kinds.two_by_two(model),
        "estimated",
        posterior="data.readout.ReadoutPosterior",
    ),
    *_verb("gamp", *_ONE_LAYER[1:]),
    Route(
        "gamp",
        "posterior sampled by nodes solved for either of the last two layers",
        kinds.deep_softmax,
        "monte-carlo",
        posterior="data.deep_pair.DeepPairPosterior",
    ),
    replace(_BRANCHES, verb="gamp", posterior="data.branches.BranchedPosterior"),
    replace(CHART, verb="gamp", serves=kinds.posterior_on_chart, posterior="data.chart.ChartedPosterior"),
    replace(SAMPLED_LAYERS, verb="gamp"),
    LINK,
    Route("descend", "slopes through all layers", kinds.tied, "estimated"),
    Route(
        "descend",
        "slopes of keys and queries",
        lambda model: kinds.any_layer(model) and not kinds.tied(model),
        "estimated",
    ),
    DERIVED_SLOPES,
    replace(LINK, verb="descend"),
)


def serving(verb: str, model: object) -> tuple[Route, ...]:
    """Routes of a verb that take a model, the preferred first."""
    return tuple(route for route in ROUTES if route.verb == verb and route.serves(model))


def preferred(verb: str, model: object) -> Route | None:
    """The first route of a verb that takes a model."""
    return next((route for route in ROUTES if route.verb == verb and route.serves(model)), None)


def require(verb: str, model: object) -> Route:
    """Return the preferred route of a verb for a model.

    Raises
    ------
    KernelNotFoundError
        There is none; the message says what is served.
    """
    if (found := preferred(verb, model)) is not None:
        return found
    if isinstance(model, Network) and model.chain is not None:
        raise KernelNotFoundError(f"{verb}: {model.describe()} is not served: {_why_not(model.chain)}")
    name = model.describe() if isinstance(model, Network | LinkKernel) else type(model).__name__
    layer = name
    if isinstance(model, Network) and kinds.any_layer(model):
        layer = f"rank {model.rank}, {'tied' if model.tied else 'untied'}"
    instead = _nearest(verb, model) if isinstance(model, Network) and verb in _COMMANDS else ""
    raise KernelNotFoundError(REFUSALS[verb].format(model=name, layer=layer) + instead)


def _why_not(chain: Chain) -> str:
    """Why a verb does not serve a list of blocks, and what is nearest."""
    if chain.planted:
        return (
            "planted overlaps of an mlp leave no symmetry that keeps its rows apart from later ones; message passing, "
            "descent and data serve them, and this verb the list without them"
        )
    if not chain.shown.charted:
        return (
            "what its output leaves open of the indices has no coordinates (masked keys and queries, tokens that "
            "leave, the mean of them); with noise on the output, --noise DELTA, every list is served"
        )
    return "it takes plain layers"


#: Commands of the verbs that have one.
_COMMANDS = {
    "last layer": "threshold",
    "first layer": "threshold --layer 1",
    "hidden layer": "threshold --layer 1",
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
