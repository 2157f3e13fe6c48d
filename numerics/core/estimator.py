"""What scikit-learn asks of an estimator's parameters, without scikit-learn."""

import inspect
from typing import Any, Self

import numpy as np

from .shown import in_html
from .typing import Array

__all__ = ["Estimator", "determination"]


def determination(predicted: Array, outputs: Array, over: tuple[int, ...] = (0,)) -> float:
    """Coefficient of determination, 1 - |F(X) - Y|^2 / |Y - mean Y|^2.

    Parameters
    ----------
    predicted, outputs : ndarray, of one shape
        F(X) and Y.
    over : tuple of int
        Axes along which the mean of Y is taken.

    Raises
    ------
    ValueError
        Outputs that do not vary.
    """
    off, spread = predicted - outputs, outputs - outputs.mean(axis=over, keepdims=True)
    if not spread.any():
        raise ValueError("Y must vary over the examples: the score compares with its mean; give more of them")
    return 1.0 - float(np.vdot(off, off) / np.vdot(spread, spread))


@in_html
class Estimator:
    """Parameters of the constructor by name: an estimator with them can be cloned and searched over."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` changes nothing, for none is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: object) -> Self:
        """Change parameters.

        Raises
        ------
        ValueError
            No parameter has this name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; its parameters are {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's cross-validation and searches ask of an estimator: outputs are numbers, inputs tokens."""
        from sklearn.utils import InputTags, RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True, two_d_labels=True, multi_output=True),
            regressor_tags=RegressorTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.get_params().items())})"
