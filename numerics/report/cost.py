"""Settings of averages: none where they are deterministic, those of the effort where posteriors are sampled."""

from ..channel.choice import is_costly
from ..model.link import Link
from ..model.routes import CHART, preferred
from .steps import Runner

__all__ = ["averages", "chosen", "costly"]


def costly(run: Runner) -> bool:
    """Whether the posterior of each output takes about a millisecond."""
    return not isinstance(run.model, Link) and is_costly(run.model)


def averages(run: Runner, verb: str) -> dict[str, object]:
    """Return the settings of averages for the function of a verb."""
    effort = run.effort
    # Relative accuracy of the averages in the free entropy, as on the command line.
    accuracy = 1e-2
    settings: dict[str, object] = {"accuracy": accuracy} if verb == "free energy" else {}
    # Points per randomisation of links, whose posteriors are exact.
    link_samples = 1024
    if isinstance(run.model, Link):
        return settings | {"samples": link_samples}
    route = preferred("evolve", run.model)
    if verb == "evolve" and effort.accuracy is not None and route == CHART:
        return settings | {"accuracy": effort.accuracy}
    if costly(run) and (route is None or route.how == "monte-carlo"):
        nodes = {} if verb == "free energy" else {"nodes": effort.nodes}
        return settings | {"samples": effort.samples, "replicas": effort.replicas} | nodes
    return settings


def chosen(run: Runner, weak: float | None) -> list[float]:
    """Alphas at which single computations are made: in units of the weak-recovery threshold, or of one without it."""
    return [float(f"{share * (weak or 1.0):.4g}") for share in run.effort.shares]
