"""Settings of a training."""

from dataclasses import dataclass

from ...core.shown import in_html
from ...core.validation import flag, not_negative, positive, whole

__all__ = ["Settings"]

_WHERE = "Appendix F"


@in_html
@dataclass(frozen=True)
class Settings:
    """Architecture and optimiser; the defaults are our choice where the paper does not state them.

    Attributes
    ----------
    rank : int
        Rows r of each layer's weights.
    skip : float
        c of X_l = [c I + softmax(X w^T w X^T / d)] X.
    epochs : int
    rate : float
        Of AdamW.
    batch : int
    weight_decay : float
    spread : float
        Standard deviation of the first weights.
    standardise : bool
        Let the entries of the training tokens have mean 0 and variance 1, as the theory has them.

    Raises
    ------
    ValueError
        A setting is outside its range.
    """

    rank: int = 16
    skip: float = 1.0
    epochs: int = 50
    rate: float = 1e-3
    batch: int = 32
    weight_decay: float = 1e-2
    spread: float = 0.02
    standardise: bool = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("rank", "epochs", "batch"):
            whole(name, getattr(self, name), 1, _WHERE)
        for name in ("rate", "spread"):
            positive(name, getattr(self, name), _WHERE)
        for name in ("skip", "weight_decay"):
            not_negative(name, getattr(self, name), _WHERE)
        flag("standardise", self.standardise, "mean 0, variance 1", "as they are")
