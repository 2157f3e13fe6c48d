"""Posteriors of sequence outputs of several layers over two tokens: saturated layers, outputs that cannot be."""

import numpy as np
import pytest

from attnlimits.numerics.arithmetic.references import lend
from attnlimits.numerics.core.errors import KernelNotFoundError, UnreachableOutputError
from attnlimits.numerics.model.charts import chart_of
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.routes import require
from attnlimits.numerics.posterior.charts.density import place, read
from attnlimits.numerics.posterior.charts.layout import constants_of, layout_of
from attnlimits.numerics.posterior.charts.outputs import output_data
from attnlimits.numerics.posterior.charts.scratch import new_scratch


@pytest.mark.parametrize(
    "model",
    [
        Network(2, 2, output="sequence"),
        Network(3, 2, (1, 2, 1), output="sequence"),
        Network(2, 2, tied=False, output="sequence"),
    ],
    ids=lambda model: model.describe(),
)
def test_saturated_layers_lose_few_digits_of_the_indices(model):
    # Scores of tens: small entries of y have every digit of them, those near one have not.
    layout = layout_of(chart_of(model), constants_of(model))
    chart, scratch, kept = lend(layout), new_scratch(layout), ~layout.free
    lent = lend(scratch)
    data, signs, z = np.empty(layout.data), np.empty(layout.signs), np.empty(layout.dimension)
    off = []
    for h in 1.5 * np.random.default_rng(3).standard_normal((1000, model.indices, 2)):
        read(h, chart, data, z, signs, lent)
        assert np.isfinite(place(z, signs, data, chart, lent))
        # Means of free rows are arbitrary.
        differences = (scratch.h - h) @ layout.modes.T
        off.append(max(np.abs(differences[kept]).max(initial=0.0), np.abs(differences[:, 1]).max()))
    assert np.quantile(off, 0.9) < 1e-6


def test_outputs_of_other_models_are_refused():
    model = Network(2, 2, output="sequence")
    layout = layout_of(chart_of(model), constants_of(model))
    y = model.link(np.random.default_rng(0).standard_normal((50, 2, 2)))
    assert np.isfinite(output_data(model, layout, y)).all()
    with pytest.raises(UnreachableOutputError, match="no indices"):
        # T = (1 + c)^2 - y_12 - y_21 is at least c^2 where the weights are tied.
        output_data(model, layout, np.array([[[1.2, 2.8], [2.5, 1.5]]]))
    with pytest.raises(UnreachableOutputError, match="sum"):
        output_data(model, layout, 0.9 * y)


def test_untied_layers_that_turn_tokens_round_have_no_route():
    assert require("evolve", Network(2, 2, tied=False, output="sequence"))
    with pytest.raises(KernelNotFoundError, match="no state evolution"):
        require("evolve", Network(2, 2, tied=False, skip=0.9, output="sequence"))
