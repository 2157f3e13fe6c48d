"""Which models have which numbers, as a table: the routes asked for an example of each kind of model."""

from .blocks import MLP, Attention
from .link import MAX_DIGITS
from .network import Network, has_kernel
from .routes import CHART_OPERATOR, serving

__all__ = ["served_table"]

#: Columns: their heading and the verbs of the routes, of which the first with one counts.
_COLUMNS = {
    "`threshold`, last layer": ("last layer",),
    "`threshold --layer 1`": ("first layer", "hidden layer"),
    "`evolve`": ("evolve",),
    "`free-energy`": ("free energy",),
    "`curve`": ("curve",),
    "`denoise`": ("denoise-mp", "fibre", "denoise-sampled"),
    "`gamp`": ("gamp",),
}
_LINK = f"| a link of your own | its own | to {MAX_DIGITS} digits | `--staircase` | yes | yes | yes | yes | yes |"
#: Rows: what they are called, and an example.
_ROWS = {
    "L = 1, rank 1": Network(1, 2),
    "L = 1, rank 2 or 3": Network(1, 3, 2),
    "L = 1, rank >= 4": Network(1, 3, 4),
    "L = 1, rank 1, untied": Network(1, 2, tied=False),
    "L = 2, M = 2, rank 1, softmax": Network(2, 2),
    "L = 2, M = 2, rank 1, linear": Network(2, 2, activation="linear"),
    "L = 2, M = 3, rank 1, softmax": Network(2, 3),
    "L = 2, M >= 4, rank 1, softmax": Network(2, 4),
    "L = 2, M >= 3, rank 1, linear": Network(2, 3, activation="linear"),
    "L >= 3, M = 2, rank 1, softmax": Network(3, 2),
    "L = 3, M = 2, rank 1, linear": Network(3, 2, activation="linear"),
    "L >= 4, M = 2, rank 1, linear": Network(4, 2, activation="linear"),
    "L >= 3, M >= 3, rank 1": Network(3, 3),
    "L >= 2, M = 2, another rank, or untied, softmax": Network(2, 2, 2, tied=False),
    "L >= 2, M >= 3, another rank, or untied": Network(2, 3, 2, tied=False),
    "L >= 2, several heads": Network(2, 2, heads=2, readouts=[((1.0, 0.0), (0.0, 1.0))]),
    "L >= 2, M = 2, sequence output, softmax": Network(2, 2, output="sequence"),
    "L = 2, M = 3, or 2 <= L < M - 1, rank 1, softmax, sequence output": Network(2, 3, output="sequence"),
    "L >= 2, M >= 3, other sequence outputs": Network(3, 3, output="sequence"),
    "a list of blocks: masks, norms, readouts, correlated tokens": Network("attention(causal) | norm | attention", 3),
    "a list whose output leaves no coordinates (tokens, masked keys), noise": Network(
        "attention | residual | readout(mean)", 3, noise=0.1
    ),
    "a list with planted overlaps of an mlp": Network([MLP(1, "tanh", [[0.5]]), Attention()], 2),
}


def served_table() -> str:
    """Rows of models and columns of verbs, in Markdown.

    A cell has the limit of every route, or its name where nothing limits it; the preferred route comes first.
    """
    rows = [["model", "kernel", *_COLUMNS], ["---"] * (2 + len(_COLUMNS))]
    for name, model in _ROWS.items():
        rows.append([name, "yes" if has_kernel(model) else "link"])
        rows[-1] += [_cell(verbs, model) for verbs in _COLUMNS.values()]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), _LINK])


def _cell(verbs: tuple[str, ...], model: Network) -> str:
    routes = next((found for verb in verbs if (found := serving(verb, model))), ())
    shown = routes[:1]
    if verbs == ("last layer",):
        # Samples where there is nothing better.
        shown = tuple(route for route in routes if route is not CHART_OPERATOR) or routes
    return "; ".join(route.note or route.name for route in shown) or "no"
