"""Charts of the indices that share an output: both ways, and their weight, for every kind of architecture."""

from dataclasses import replace

import pytest
import sympy as sp

from attnlimits.derive.architecture import Architecture
from attnlimits.derive.charts import chart
from attnlimits.derive.emit.chart_source import source_of_chart
from attnlimits.derive.kernels.chart import chart_kernels, prove_chart
from attnlimits.derive.noisy_chart import noisy_chart
from attnlimits.derive.proof import ProofError

MODELS = [
    Architecture(1, 2),
    Architecture(1, 3, 2, tied=False),
    Architecture(2, 2),
    Architecture(2, 3),
    Architecture(2, 2, tied=False),
    Architecture(2, 3, tied=False),
    Architecture(2, 2, 2),
    Architecture(2, 3, (1, 3)),
    Architecture(2, 2, (2, 3)),
    Architecture(2, 2, 2, tied=False),
    Architecture(2, 3, 2, "linear"),
    Architecture(2, 3, 2, "linear", tied=False),
    Architecture(3, 3, tied=False),
    Architecture(4, 2, tied=False),
    Architecture(2, 2, heads=2),
    Architecture(2, 2, heads=2, tied=False),
    Architecture(2, 2, output="sequence"),
    Architecture(2, 2, tied=False, output="sequence"),
    Architecture(2, 2, (1, 2), tied=False, output="sequence"),
    Architecture(3, 2, (1, 2, 1), output="sequence"),
]
# More rows, tokens or layers than others of their kind.
LARGE = (
    Architecture(2, 3, (1, 3)),
    Architecture(2, 2, (2, 3)),
    Architecture(2, 3, 2, "linear", tied=False),
    Architecture(3, 3, tied=False),
    Architecture(4, 2, tied=False),
    Architecture(3, 2, (1, 2, 1), output="sequence"),
)
each_model = pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            model,
            id=f"{model.name}-{model.layers}-{model.rank_vector}",
            marks=[pytest.mark.slow] if model in LARGE else [],
        )
        for model in MODELS
    ],
)


@each_model
def test_the_chart_undoes_itself_and_its_weight_is_the_jacobian(model):
    found = chart(model)
    prove_chart(found, chart_kernels(found), seed=3)


@each_model
def test_noise_leaves_all_indices_free(model):
    found = noisy_chart(model)
    prove_chart(found, chart_kernels(found), seed=3)
    assert len(found.data) + len(found.hidden) == found.h.rows * found.h.cols


def test_a_wrong_weight_is_found():
    found = chart(Architecture(2, 2, tied=False))
    read, complete, from_output = chart_kernels(found)
    outputs = dict(complete.outputs)
    outputs["log_weight"] = outputs["log_weight"] + found.hidden[0] / 100
    wrong = replace(complete, outputs=tuple(outputs.items()))
    with pytest.raises(ProofError, match="weight times Jacobian"):
        prove_chart(found, (read, wrong, from_output))


def test_wrong_data_of_an_output_are_found():
    found = chart(Architecture(2, 2, heads=2))
    read, complete, from_output = chart_kernels(found)
    (name, value), *rest = from_output.outputs
    wrong = replace(from_output, outputs=((name, 2 * value), *rest))
    with pytest.raises(ProofError, match="the data of the output"):
        prove_chart(found, (read, complete, wrong))


def test_dimensions_add_up():
    for model in MODELS:
        found = chart(model)
        if model.output == "sequence":
            assert len(found.data) + len(found.variables) + len(found.free) == found.h.rows * found.h.cols, model.name
        else:
            size = len(found.data) + len(found.hidden) + len(found.variables)
            solved = [b for b in model.index_blocks if b.layer == model.layers and b.block == b.head]
            means = sum(b.rank for b in solved if b.start in found.free)
            assert size + means == found.h.rows * found.h.cols, model.name


def test_shifts_of_queries_change_no_output():
    model = Architecture(2, 3, 2, tied=False, skip=sp.Rational(7, 5), beta=sp.Rational(4, 5))
    assert model.free_means == (2, 3, 6, 7)
    assert Architecture(2, 3, 2).free_means == ()
    assert Architecture(2, 3, 2, "linear", tied=False).free_means == ()


def test_outputs_that_bind_the_layers_before_are_refused():
    with pytest.raises(ValueError, match="equations on the layers before the last"):
        chart(Architecture(2, 3, output="sequence"))


def test_the_source_is_the_same_each_time():
    model = Architecture(2, 2, 2)
    assert source_of_chart(model) == source_of_chart(model)
    assert "def complete(" in source_of_chart(model)
