"""An average that is no number is refused: it passes every comparison that asks whether it is too large."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds import charts, flow
from attnlimits.numerics.thresholds.link import operator as operators
from attnlimits.numerics.thresholds.link import thresholds
from attnlimits.numerics.thresholds.link.operator import Operator


@pytest.mark.parametrize(("norm", "error"), [(math.nan, 0.1), (1.0, math.nan), (-math.inf, math.nan)])
def test_charts(norm: float, error: float) -> None:
    with pytest.raises(ConvergenceError, match="not all numbers"):
        charts._inverse(norm, error, Network(layers=1, tokens=3, skip=1.0))


def test_flow_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="kappa"):
        flow._at_most("kappa", math.nan, 10.0, "tied", "")
    ended = SimpleNamespace(success=True, y=np.full((4, 2), math.nan))
    monkeypatch.setattr(flow, "solve_ivp", lambda *_, **__: ended)
    with pytest.raises(ConvergenceError, match="differ by nan"):
        flow._pair(0.1, 1, 1.0, 1e-8)


def operator_of(matrix: float, linear: float, error: float) -> Operator:
    return Operator((0,), np.full((1, 1), linear), np.full((1,) * 4, matrix), error, 0.0, 1)


@pytest.mark.parametrize("found", [(math.nan, 0.0, 1e-9), (1.0, 0.0, math.nan), (1.0, math.nan, 1e-9)])
def test_links(found: tuple[float, float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "operator", lambda *_: operator_of(*found))
    result = thresholds.threshold(kernel_of("abs(h[1]) + 1/(1 + h[1]**2)"))
    assert not result.converged and result.value is None and "not converged" in result.status


def test_samples_stand_in_for_a_quadrature_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = operator_of(1.0, 0.0, 1e-3)
    monkeypatch.setattr(operators, "_integrated", lambda *_: operator_of(1.0, 0.0, math.nan))
    monkeypatch.setattr(operators, "_sampled", lambda *_, **__: sampled)
    assert operators.operator(kernel_of("abs(h[1]) + 1/(1 + h[1]**2)")).error == 1e-3
