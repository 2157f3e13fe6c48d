"""The prior of a model whose inputs may have a spectrum, the same for every verb."""

from attnlimits.numerics.model.described import Model
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.priors import Prior, Spectrum, SpectrumLike, prior_with

__all__ = ["prior_of"]


def prior_of(model: Model, prior: Prior | str | None, spectrum: SpectrumLike | None, heads: int | None = None) -> Prior:
    """The prior, or that of a spectrum of the inputs.

    Raises
    ------
    ValueError
        Both are given, the spectrum is none, or the model has several heads, whose coordinates differ.
    """
    law = prior_with(prior, spectrum)
    several = (model.heads if isinstance(model, Network) else 1) if heads is None else heads
    if isinstance(law, Spectrum) and several > 1:
        raise ValueError(
            f"a spectrum is served for one head (troiani2025 (30)), got {several}: each head reads coordinates of its "
            "own, and their spectra may differ; give that of one of them to one head"
        )
    return law
