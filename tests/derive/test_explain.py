"""What `explain` prints: its formulas are those of the derived link, its symmetries hold, its LaTeX is balanced."""

import functools
import json
import re

import numpy as np
import pytest
import sympy as sp

from attnlimits.derive import depth, mixing
from attnlimits.derive.architecture import Architecture
from attnlimits.derive.explain import page
from attnlimits.derive.explain.channel import channel_section
from attnlimits.derive.explain.depth import committee_form
from attnlimits.derive.explain.dimensions import free_variables
from attnlimits.derive.explain.indices import index_rows
from attnlimits.derive.explain.link import definitions
from attnlimits.derive.explain.notation import Activated
from attnlimits.derive.explain.page import description
from attnlimits.derive.explain.symmetries import symmetries
from attnlimits.derive.linearization import single_layer_threshold
from attnlimits.derive.primitives import elementary
from attnlimits.derive.sequence_rank import independent_entries
from attnlimits.derive.symbols import inverse_skip
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.model.networks import link

SKIP, BETA = 0.7, 0.9
CASES = {
    "tied": Architecture(layers=2, tokens=2),
    "tied, ranks": Architecture(layers=2, tokens=3, ranks=(2, 1)),
    "linear": Architecture(layers=3, tokens=2, activation="linear"),
    "untied": Architecture(layers=2, tokens=3, ranks=(1, 2), tied=False),
    "sequence": Architecture(layers=2, tokens=2, ranks=2, output="sequence"),
    "heads, tied": Architecture(layers=2, tokens=2, heads=2),
    "heads, untied": Architecture(layers=2, tokens=2, heads=2, tied=False),
    "heads, three layers, linear": Architecture(layers=3, tokens=2, heads=2, activation="linear"),
    "heads, sequence": Architecture(layers=1, tokens=3, heads=3, output="sequence"),
    "heads, two layers, sequence": Architecture(layers=2, tokens=2, heads=2, output="sequence", tied=False),
    "heads, one layer": Architecture(layers=1, tokens=2, heads=2),
    "user": Architecture(layers=2, tokens=2, activation=sp.tanh),
    "one layer": Architecture(layers=1, tokens=2),
    "wide": Architecture(layers=1, tokens=3, ranks=4),
    "exact numbers": Architecture(layers=2, tokens=2, skip=sp.Rational(1, 2), beta=2),
}
# Each property of these two is one of other cases.
LARGE = ("heads, three layers, linear", "heads, two layers, sequence")
each_case = pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=[pytest.mark.slow] if name in LARGE else []) for name, model in CASES.items()],
    ids=CASES.keys(),
)


@pytest.fixture(scope="module", autouse=True)
def records_once():
    """Derive each page once for all tests that read it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "explain_record", functools.cache(page.explain_record))
        yield


def explain(model, fmt="text"):
    return page.explain(model, fmt)


def explain_record(model):
    return page.explain_record(model)


def _softmax(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _constants(model):
    """Numbers for the constants that are symbols; exact ones keep their value."""
    given = {model.skip: SKIP, model.beta: BETA}
    return {name: value for name, value in given.items() if isinstance(name, sp.Symbol)}


def _value(expr, model, known):
    """Evaluate a printed matrix expression from its tree; every node that is not expected is an error."""
    if isinstance(expr, sp.MatrixSymbol):
        return known[str(expr)]
    if isinstance(expr, sp.Identity):
        return np.eye(model.tokens)
    if isinstance(expr, sp.Transpose):
        return _value(expr.arg, model, known).T
    if isinstance(expr, Activated):
        return _activated(model, _value(expr.scores, model, known))
    if isinstance(expr, sp.MatAdd):
        return sum(_value(term, model, known) for term in expr.args)
    if isinstance(expr, sp.MatMul):
        numbers = {name: value for name, value in known.items() if isinstance(name, sp.Symbol)}
        scalar, matrices = 1.0, []
        for factor in expr.args:
            if isinstance(factor, sp.MatrixExpr):
                matrices.append(_value(factor, model, known))
            else:
                scalar *= float(factor.subs(_constants(model)).subs(numbers))
        return scalar * functools.reduce(np.matmul, matrices)
    raise TypeError(f"unexpected {type(expr).__name__}")


def _activated(model, scores):
    if model.activation == "softmax":
        return _softmax(scores)
    return np.tanh(scores) if callable(model.activation) else scores


def _indices(model, rng):
    return rng.standard_normal((model.indices, model.tokens))


def _readouts(model, rng):
    return [rng.standard_normal((model.heads, model.heads)) for _ in model.readouts]


def _printed_output(model, h, readouts):
    known = {}
    for block, row in zip(model.index_blocks, index_rows(model), strict=True):
        assert row["rows"] == [block.start + 1, block.start + block.rank]
        known[row["name"]] = h[block.start : block.start + block.rank]
    for layer, weights in enumerate(readouts, start=1):
        for a, b in np.ndindex(*weights.shape):
            known[sp.Symbol(f"o_{layer},{a + 1}{b + 1}", real=True)] = weights[a, b]
    for line in definitions(model):
        assert str(line.name) not in known  # every name is defined once, and before it is used
        known[str(line.name)] = np.asarray(_value(line.value, model, known))
        assert known[str(line.name)].shape == tuple(int(n) for n in line.name.shape)
    last, heads = model.layers, range(1, model.heads + 1)
    if model.output == "sequence":
        if model.heads == 1:
            return known[f"B_{last}"]
        return np.block([[known[f"B_{last},{a}{b}"] for b in heads] for a in heads])
    return known[f"S_{last}"] if model.heads == 1 else np.vstack([known[f"S_{last},{a}"] for a in heads])


_LINKS = {}


def _derived_output(model, h, readouts):
    if model not in _LINKS:
        arguments = [entry for layer in model.index_matrices() for entry in layer]
        arguments += [entry for weights in model.readouts for entry in weights]
        arguments += list(_constants(model))
        _LINKS[model] = sp.lambdify(arguments, elementary(mixing.link(model)), "numpy", cse=True)
    values = [*h.reshape(-1), *(w for weights in readouts for w in weights.reshape(-1))]
    values += list(_constants(model).values())
    return np.asarray(_LINKS[model](*values), dtype=float)


@each_case
def test_printed_definitions_give_the_derived_link(model):
    rng = np.random.default_rng(5)
    h, readouts = _indices(model, rng), _readouts(model, rng)
    # Both are float64 evaluations of the same formula in another order; linear layers grow the numbers.
    np.testing.assert_allclose(_printed_output(model, h, readouts), _derived_output(model, h, readouts), rtol=1e-11)


def _moved(model, symmetry, h, rng):
    """Indices after a random element of the symmetry."""
    h = h.copy()
    for block in model.index_blocks:
        rows = slice(block.start, block.start + block.rank)
        if symmetry.group == "free":
            if block.layer == symmetry.layer and block.head != block.block:
                h[rows] = rng.standard_normal(h[rows].shape)
            continue
        if (block.layer, block.head) != (symmetry.layer, symmetry.head):
            continue
        if symmetry.block not in (None, block.block):
            continue
        own = np.random.default_rng([block.layer, block.head])  # one element for all blocks of a head
        square = own.standard_normal((block.rank, block.rank))
        if symmetry.group == "sign":
            h[rows] *= -1.0
        elif symmetry.group == "O(r)":
            h[rows] = np.linalg.qr(square)[0] @ h[rows]
        elif symmetry.group in ("scale", "GL(r)"):
            h[rows] = (square if block.role == "k" else np.linalg.inv(square).T) @ h[rows]
        elif symmetry.group == "shift" and block.role == "q":
            h[rows] += rng.standard_normal((block.rank, 1))  # its own shift for every block
    return h


@each_case
def test_stated_symmetries_hold(model):
    rng = np.random.default_rng(6)
    h, readouts = _indices(model, rng), _readouts(model, rng)
    output = _derived_output(model, h, readouts)
    for symmetry in symmetries(model):
        if symmetry.group == "permutation":
            order = np.roll(np.arange(model.tokens), 1)
            changed = h.copy()
            for block in model.index_blocks:
                if symmetry.block is None or (block.head, block.block) == (symmetry.head, symmetry.block):
                    rows = slice(block.start, block.start + block.rank)
                    changed[rows] = h[rows][:, order]
            moved = _derived_output(model, changed, readouts)
            across = output.shape[1] // model.tokens
            for a, b in np.ndindex(output.shape[0] // model.tokens, across):
                rows = slice(a * model.tokens, (a + 1) * model.tokens)
                columns = slice(b * model.tokens, (b + 1) * model.tokens)
                # The attention of head b stands in column b of a mixing matrix, and in row a of attention matrices.
                touched = symmetry.block in (None, b + 1 if across > 1 else a + 1)
                expected = output[rows, columns][np.ix_(order, order)] if touched else output[rows, columns]
                np.testing.assert_allclose(moved[rows, columns], expected, rtol=1e-9)
        else:
            # The random matrices of GL(r) have condition numbers of ten or so.
            changed = _moved(model, symmetry, h, rng)
            assert not np.allclose(changed, h)
            np.testing.assert_allclose(_derived_output(model, changed, readouts), output, rtol=1e-9)


def test_a_sign_is_no_symmetry_of_keys_alone():
    model = CASES["untied"]
    rng = np.random.default_rng(7)
    h = _indices(model, rng)
    changed = h.copy()
    changed[0] *= -1.0
    assert not np.allclose(_derived_output(model, changed, []), _derived_output(model, h, []))


def _evaluated(lines, model, h, readouts, epsilon):
    known = {
        row["name"]: h[block.start : block.start + block.rank]
        for block, row in zip(model.index_blocks, index_rows(model), strict=True)
    }
    for layer, weights in enumerate(readouts, start=1):
        for a, b in np.ndindex(*weights.shape):
            known[sp.Symbol(f"o_{layer},{a + 1}{b + 1}", real=True)] = weights[a, b]
    known[inverse_skip] = epsilon
    for line in lines:
        known[str(line.name)] = np.asarray(_value(line.value, model, known))
    return known


@each_case
def test_committee_form_is_the_derived_first_order(model):
    """The printed form against derive.depth, which expands the recursion; at first order they are one expression."""
    lines = committee_form(model)
    if model.layers == 1:
        assert lines == ()
        assert "Large depth" not in explain(model)
        return
    rng = np.random.default_rng(8)
    h, readouts = 0.3 * _indices(model, rng), _readouts(model, rng)
    epsilon = 0.25
    known = _evaluated(lines, model, h, readouts, epsilon)
    offsets = np.cumsum([m.rows for m in model.index_matrices()])[:-1]
    layers = [sp.Matrix(part) for part in np.split(h, offsets)]
    weights = [sp.Matrix(o) for o in readouts]

    def numbers(expr):
        return np.array(elementary(expr).subs(_constants(model)).evalf(), dtype=float)

    heads = range(1, model.heads + 1)
    committee = depth.committee(model, layers, weights or None)
    printed = [[known["C" if model.heads == 1 else f"C_{a}{b}"] for b in heads] for a in heads]
    # Two float64 evaluations of a sum of products.
    np.testing.assert_allclose(np.block(printed), numbers(committee), rtol=1e-11, atol=1e-13)
    size = model.heads * model.tokens
    if model.output == "sequence":
        wanted = np.eye(size) + epsilon * numbers(committee)
        names = [["B_2" if model.heads == 1 else f"B_2,{a}{b}" for b in heads] for a in heads]
        made = np.block([[known[name] for name in row] for row in names])
    else:
        scores = depth.expand(model, 1, layers, readouts=weights or None).scores
        total = numbers(scores[0]) + epsilon * numbers(scores[1])
        beta = float(model.beta.subs(_constants(model)))
        wanted = np.vstack([_activated(model, beta * part) for part in np.split(total, model.heads)])
        last = f"S_{model.layers}"
        made = np.vstack([known[last if model.heads == 1 else f"{last},{a}"] for a in heads])
    np.testing.assert_allclose(made, wanted, rtol=1e-11, atol=1e-13)


def _rank_of_the_output(model, rng):
    """Rank of the derivative of the output: of B_L at 60 digits, of attention matrices by central differences."""
    if model.output == "sequence":
        return len(independent_entries(model, {}))
    network = Network(
        model.layers,
        model.tokens,
        model.rank_vector,
        heads=model.heads,
        tied=model.tied,
        output=model.output,
        skip=SKIP,
        beta=BETA,
        activation=model.activation,
        readouts=[rng.normal(size=(model.heads, model.heads)) for _ in model.readouts],
    )
    h = rng.normal(size=(network.indices, network.tokens))
    steps = np.eye(h.size).reshape(-1, *h.shape) * 1e-5
    change = (link(h + steps, network) - link(h - steps, network)).reshape(h.size, -1) / 2e-5
    values = np.linalg.svd(change, compute_uv=False)
    # Differences are good to 1e-9; true singular values of these small networks lie above 1e-5.
    return int((values > 1e-7 * values[0]).sum())


COUNTED = [
    Architecture(layers=layers, tokens=tokens, ranks=rank, tied=tied, activation=activation, output="sequence")
    for layers in (1, 2, 3)
    for tokens in (2, 3)
    for rank in (1, 2)
    for tied in (True, False)
    for activation in ("softmax", "linear")
]
COUNTED += [
    Architecture(layers=layers, tokens=tokens, ranks=2, tied=tied, heads=heads)
    for layers, tokens, tied, heads in ((1, 2, True, 2), (1, 3, False, 2), (2, 2, True, 2), (2, 3, False, 2))
]
COUNTED += [Architecture(layers=3, tokens=3, ranks=(1, 2, 1)), Architecture(layers=2, tokens=4, output="sequence")]


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_free_variables_are_those_of_the_derivative(large):
    """What is left to integrate is what the output does not move with: variables less the rank of its derivative."""
    rng = np.random.default_rng(9)
    # Sequences with more entries of h than these take most of the time, and add no kind of model.
    apart = [m for m in COUNTED if m.output == "sequence" and m.layers > 1 and m.indices * m.tokens > 6]
    for model in apart if large else (m for m in COUNTED if m not in apart):
        entering, left = free_variables(model)
        dropped = model.indices * model.tokens - entering
        assert left == model.indices * model.tokens - _rank_of_the_output(model, rng) - dropped, description(model)
        (line,) = (line.text for line in channel_section(model).lines if " left to integrate" in line.text)
        assert f"{left} of {entering} variables" in line


@each_case
def test_text_names_every_index_and_the_number_of_them(model):
    text = explain(model)
    assert f"P x M = {model.indices} x {model.tokens}" in text
    for row in explain_record(model)["indices"]:
        assert f"{row['name']} (" in text
    for title in ("Indices", "Mixing functions and link", "Symmetries of the link", "Weak-recovery threshold"):
        assert title in text
    assert "MatMul" not in text and "MatrixSymbol" not in text and "nan" not in text.split()
    assert re.search(r"\b\d+\.\d", text) is None  # exact: no float is printed


def _balanced(text):
    depth = 0
    for character in text:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    return depth == 0


@each_case
def test_latex_is_balanced(model):
    latex = explain(model, "latex")
    assert _balanced(latex.replace(r"\{", "").replace(r"\}", ""))
    assert len(re.findall(r"\\left(?![a-z])", latex)) == len(re.findall(r"\\right(?![a-z])", latex))
    open_environments = []
    for verb, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", latex):
        if verb == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    assert latex.count("$") % 2 == 0
    assert latex.startswith(r"\documentclass") and latex.endswith(r"\end{document}")
    body = latex.split(r"\begin{document}")[1].removesuffix(r"\end{document}")
    prose = re.sub(r"\\begin\{align\*\}.*?\\end\{align\*\}", "", body, flags=re.DOTALL)
    prose = re.sub(r"\$[^$]*\$", "", prose)
    # Outside of formulas nothing may need math mode.
    assert re.findall(r"(?<!\\)[_^&#%]", prose) == []
    assert set(re.findall(r"\\[a-z]+", prose)) <= {r"\section", r"\subsection", r"\par"}


@each_case
def test_record_is_the_same_in_json(model):
    record = explain_record(model)
    assert json.loads(explain(model, "json")) == record
    assert record["text"] == explain(model, "text")
    assert record["P"] == model.indices
    assert len(record["indices"]) == len(model.index_blocks)
    assert [line["name"] for line in record["definitions"]] == [str(line.name) for line in definitions(model)]


@pytest.mark.parametrize(
    ("model", "value"),
    [(Architecture(layers=1, tokens=3), "1/12"), (Architecture(layers=1, tokens=2, tied=False), "-2 + sqrt(5)")],
)
def test_threshold_is_the_derived_one(model, value):
    record = explain_record(model)
    assert record["threshold"]["text"] == value
    derived = single_layer_threshold(model.tokens, 1, "softmax", tied=model.tied)
    assert sp.simplify(sp.sympify(value) - derived) == 0
    assert f"alpha_c = {value}" in record["text"]


@pytest.mark.parametrize("name", ["tied", "untied", "heads, tied", "user"])
def test_a_missing_threshold_has_a_reason(name):
    threshold = explain_record(CASES[name])["threshold"]
    assert threshold["text"] is None
    assert "closed form" in threshold["reason"]


def test_printed_readout_inverts_the_link():
    """The formula of the page, read back from its text, gives the readout of a label up to its sign."""
    model = CASES["one layer"]
    line = next(line for line in explain(model).splitlines() if line.strip().startswith("v = "))
    names = {name: sp.Symbol(name, positive=True) for name in ("y11", "y12", "y21", "y22", "beta")}
    row = sp.Matrix(sp.sympify(line.split("=")[1].replace("^", "**"), locals=names))
    v = np.array([0.8, -0.3])
    y = _softmax(BETA * np.outer(v, v))
    found = row.subs({names["y11"]: y[0, 0], names["y12"]: y[0, 1], names["y21"]: y[1, 0], names["y22"]: y[1, 1]})
    found = np.array(found.subs(names["beta"], BETA), dtype=float).reshape(-1)
    np.testing.assert_allclose(found * np.sign(found[0]) * np.sign(v[0]), v, rtol=1e-12)


def test_heads_of_one_layer_are_heads_side_by_side():
    model = CASES["heads, one layer"]
    text = explain(model)
    assert "fixes the indices h_1,aa" in text
    assert "0 of 4 variables that enter are left" in text
    # H D/H coordinates: the heads share the D of alpha = N/D.
    assert "alpha_c = 1/12" in text
    deep = explain(CASES["heads, untied"])
    assert "no block by itself is fixed" in deep
    assert "alpha_c is that of one over H" in deep


def test_names_of_many_heads_do_not_coincide():
    model = Architecture(layers=1, tokens=2, heads=11)
    names = [row["name"] for row in explain_record(model)["indices"]]
    assert len(set(names)) == len(names) == 121


def test_numbers_and_nouns_agree():
    for model in CASES.values():
        text = explain(model)
        assert re.search(r"\b1 (layers|variables|equations|heads)\b", text) is None
        assert "(s)" not in text
        assert "None" not in text


def test_modes_have_subscripts_in_latex():
    latex = explain(CASES["tied"], "latex")
    assert "v_{-}" in latex
    assert re.search(r"(?<![a-z])[vx][pm](?![a-z])", latex) is None


def test_deep_networks_stay_short():
    # One line of indices, symmetry, attention and mixing per layer, whatever the depth: no expanded formula.
    text = explain(Architecture(layers=20, tokens=4, ranks=2))
    assert len(text.splitlines()) < 4 * 20 + 50
    assert len(text) < 10_000


def test_unknown_format_is_refused():
    with pytest.raises(ValueError, match="fmt must be one of text, latex, json, got 'html'"):
        explain(CASES["tied"], "html")
