"""Whatever the front door hands out shows itself in a few lines, as text and in a notebook, and has help."""

import inspect
import re
import types
from functools import cache

import numpy as np
import pytest

import attnlimits as al

FIELDS = ("aim", "blocks", "classifier", "committee", "derivations", "free_energy", "learning", "multihead")
NET = al.Network(layers=1, tokens=2)
LINK = al.Link("h[1]**2")
RNG = {"rng": 1}
MOST_LINES, MOST_CHARACTERS = 6, 1500


@cache
def instance():
    weights = al.teacher(NET, 20, rng=1)
    return weights, *al.make_data(NET, weights, 2.0, rng=2)


@cache
def channel():
    return al.aim.channel("softmax", 2)


@cache
def samples():
    matrix = al.aim.teacher(6, 0.5, rng=1)
    return matrix, *al.aim.instance(matrix, 0.5, channel(), rng=2)


@cache
def layers():
    h = np.random.default_rng(1).standard_normal((2, 30, 2, 2))
    return np.random.default_rng(2).standard_normal((30, 2, 6)), al.aim.deep_outputs(h + h.swapaxes(2, 3), 1.0)


@cache
def multihead():
    theta, w = al.multihead.make_teacher("gauss", 2, 6, rng=1)
    return theta, w, al.multihead.make_examples(theta, w, samples=1500, tokens=2, rng=2)


@cache
def corpus():
    return al.classifier.made_corpus(train=20, test=10, dimension=8, rng=0)


def embedded(folder):
    al.classifier.write_corpus(folder, corpus())
    questions = (al.classifier.read_questions(folder / f"{name}.txt") for name in ("train", "test"))
    return al.classifier.embed_folder(folder, *questions)


def labelled(folder):
    """Sets for training: embedded questions with their labels."""
    sets = embedded(folder)
    questions = (al.classifier.read_questions(folder / f"{name}.txt") for name in ("train", "test"))
    _, *labels = al.classifier.label_numbers(*questions)
    return list(zip(sets, labels, strict=True))


def swept(folder):
    grid = folder / "grid.toml"
    grid.write_text('task = "threshold"\n[fixed]\nlayers = 1\n[axes]\ntokens = [2, 3]\n', encoding="utf-8")
    return al.sweep(grid, folder / "swept", workers=1)


def learned(heads=2, method=al.multihead.learn_multihead):
    examples = multihead()[2]
    return method(examples.X, examples.Y, heads, strict=False, rng=0)


def projections():
    """Queries and keys of four heads on sixteen coordinates, shape (4, 3, 16)."""
    return np.random.default_rng(1).standard_normal((2, 4, 3, 16))


def data(algorithm, **settings):
    weights, x, y = instance()
    return algorithm(NET, x, y, teacher=weights, **settings)


def runs(learn):
    found = al.learning.on_instances(NET, 2.0, 20, learn, count=2)
    return [*found, al.learning.mean_of(found, [3, 3])]


#: Objects of every public name that gives any, made in an empty folder.
OBJECTS = {
    "Link": lambda _: (LINK, LINK.kernel),
    "Network": lambda _: NET,
    "enclose": lambda _: al.enclose(al.Network(2, 2), width=1e-3),
    "load": lambda folder: (al.evolve(NET, 0.1).save(folder / "a.json"), al.load(folder / "a.json")),
    "prove": lambda _: al.prove(al.Network(2, 2), digits=2),
    "staircase": lambda _: al.staircase(LINK),
    "sweep": swept,
    "open_sweep": lambda folder: (swept(folder), al.open_sweep(folder / "swept"))[1],
    "verify": lambda _: al.verify("troiani2025", [2]),
    "curve": lambda _: al.curve(NET, [0.1, 0.2]),
    "denoise": lambda _: [
        al.denoise(NET, NET.link(np.array([[0.4, -0.3]])), np.zeros((1, 2)), np.eye(1), digits=d) for d in (None, 20)
    ],
    "descend": lambda _: data(al.descend, epochs=2),
    "evolve": lambda _: al.evolve(NET, 0.4),
    "from_flax": lambda _: al.from_flax(
        {name: {"kernel": w.transpose(2, 0, 1)} for name, w in zip(("query", "key"), projections(), strict=True)}, 3
    ),
    "from_torch": lambda _: al.from_torch(
        types.SimpleNamespace(num_heads=4, in_proj_weight=np.ones((48, 16)), in_proj_bias=np.ones(48)), 3
    ),
    "from_weights": lambda _: (found := al.from_weights(*projections(), 3), found.layers),
    "free_entropy": lambda _: al.free_entropy(NET, 0.4),
    "free_energy.Answer": lambda _: al.free_energy.answer(NET, 0.3),
    "free_energy.accurate_landscape": lambda _: al.free_energy.accurate_landscape(
        al.free_energy.answer(LINK, 1.05), None, points=4, top=0.9, progress=None
    ),
    "free_energy.answer": lambda _: al.free_energy.answer(LINK, 1.05, accuracy=1e-3),
    "gamp": lambda _: data(al.gamp, max_iter=3),
    "report": lambda folder: al.report(LINK, folder / "report", effort="quick"),
    "threshold": lambda _: (al.threshold(NET), al.threshold(LINK)),
    "aim.AMPStep": lambda _: al.aim.amp(*samples()[1:], channel(), 0.5, max_iter=2),
    "aim.Channel": lambda _: channel(),
    "aim.LastLayer": lambda _: al.aim.LastLayer(2),
    "aim.Noisy": lambda _: al.aim.Noisy(channel(), 0.1),
    "aim.Single": lambda _: al.aim.Single(*samples()[1:], channel()),
    "aim.Softmax": lambda _: al.aim.Softmax(2),
    "aim.amp": lambda _: al.aim.amp(*samples()[1:], channel(), 0.5, max_iter=2),
    "aim.amp_instances": lambda _: al.aim.amp_instances(0.5, 0.5, 6, channel(), count=2, seed=0, max_iter=2),
    "aim.channel": lambda _: [
        al.aim.channel(name, tokens) for name in ("linear", "softmax", "hardmax", "tanh(z)") for tokens in (2, 3)
    ],
    "aim.curve": lambda _: al.aim.curve([0.1], 0.5, channel()),
    "aim.denoise_matrix": lambda _: al.aim.denoise_matrix(np.eye(6), 0.5, 0.1),
    "aim.descend": lambda _: al.aim.descend(*samples()[1:], channel(), 0.5, students=1, steps=2, rng=0),
    "aim.descend_layers": lambda _: al.aim.descend_layers(*layers(), [0.5, 0.5], 1.0, steps=2, rng=0),
    "aim.descent_instances": lambda _: al.aim.descent_instances(
        0.5, 0.5, 6, channel(), count=2, seed=0, students=1, steps=2
    ),
    "aim.errors_on_data": lambda _: al.aim.errors_on_data(
        samples()[0], samples()[0], 0.1, channel(), samples=20, rng=0
    ),
    "aim.estimate_rho": lambda _: al.aim.estimate_rho(*samples()[1:], channel(), max_iter=2),
    "aim.evolve": lambda _: al.aim.evolve(0.1, 0.5, channel()),
    "aim.evolve_heads": lambda _: al.aim.evolve_heads(0.1, 0.5, "softmax", 2),
    "aim.free_entropy": lambda _: al.aim.free_entropy(0.1, 0.5, 0.5, channel()),
    "aim.free_entropy_at": lambda _: al.aim.free_entropy_at(0.1, 0.5, channel()),
    "aim.head_error": lambda _: al.aim.head_error(2, al.aim.mmse(0.5, 0.1)),
    "aim.heads_channel": lambda _: al.aim.heads_channel("softmax", 2),
    "aim.instance": lambda _: al.aim.instance(np.zeros((3000, 3000)), 0.5, channel(), rng=0),
    "aim.mmse": lambda _: al.aim.mmse(0.5, 0.1),
    "aim.mmse_digits": lambda _: al.aim.mmse_digits("0.5", "0.1", digits=5),
    "aim.noisy_tail": lambda _: al.aim.noisy_tail(0.5, al.aim.channel("softmax", 2, noise=0.1)),
    "aim.perfect_recovery": lambda _: al.aim.perfect_recovery("0.5", channel()),
    "aim.prediction_errors": lambda _: al.aim.prediction_errors(0.1, 0.5, channel()),
    "aim.spectrum": lambda _: al.aim.spectrum(0.5, 0.1),
    "aim.weak_recovery": lambda _: al.aim.weak_recovery(channel()),
    "classifier.Settings": lambda _: al.classifier.Settings(),
    "classifier.embed_folder": embedded,
    "classifier.made_corpus": lambda _: corpus(),
    "classifier.read_questions": lambda folder: (embedded(folder), al.classifier.read_questions(folder / "train.txt"))[
        1
    ],
    "classifier.repeated": lambda folder: al.classifier.repeated(
        *labelled(folder), al.classifier.Settings(epochs=1, rank=2), count=1
    ),
    "classifier.train": lambda folder: al.classifier.train(*labelled(folder), al.classifier.Settings(epochs=1, rank=2)),
    "committee.committee_evolution": lambda _: al.committee.committee_evolution(3, 1.0),
    "committee.committee_threshold": lambda _: al.committee.committee_threshold(3),
    "committee.last_layer_threshold": lambda _: al.committee.last_layer_threshold(3, 400.0),
    "committee.limit_threshold": lambda _: al.committee.limit_threshold(),
    "derivations.architecture_of": lambda _: al.derivations.architecture_of(NET),
    "free_energy.Binary": lambda _: al.free_energy.Binary(),
    "free_energy.Density": lambda _: al.free_energy.Density("exp(-w**4)"),
    "free_energy.GaussBernoulli": lambda _: al.free_energy.GaussBernoulli(0.1),
    "free_energy.Gaussian": lambda _: al.free_energy.Gaussian(),
    "free_energy.Informed": lambda _: al.free_energy.Informed(known=0.2),
    "free_energy.Laplace": lambda _: al.free_energy.Laplace(),
    "free_energy.Rows": lambda _: al.free_energy.Rows([[1.0, 0.5], [0.5, 1.0]]),
    "free_energy.as_spectrum": lambda _: [
        al.free_energy.as_spectrum(name) for name in ("mp:1", "points:1,2", [1.0, 2.0])
    ],
    "free_energy.bayes_optimal": lambda _: (
        free := al.free_entropy(NET, 0.4),
        al.free_energy.bayes_optimal(free, al.free_energy.located(free).points[0], rng=0),
    ),
    "free_energy.entropy_of": lambda _: al.free_energy.entropy_of(LINK),
    "free_energy.located": lambda _: al.free_energy.located(al.free_entropy(LINK, 1.05)),
    "free_energy.prior_named": lambda _: al.free_energy.prior_named("binary"),
    "free_energy.stationary_points": lambda _: al.free_energy.stationary_points(al.free_entropy(NET, 0.4)),
    "free_energy.transitions": lambda _: al.free_energy.transitions(al.free_energy.entropy_of(LINK)),
    "learning.GAMP": lambda _: al.learning.GAMP(NET, max_iter=2).fit(*instance()[1:]),
    "learning.GAMPStep": lambda _: (steps := [], data(al.gamp, max_iter=1, callback=steps.append))[0],
    "learning.DescentStep": lambda _: (steps := [], data(al.descend, epochs=1, callback=steps.append))[0],
    "learning.RowFiles": lambda folder: al.learning.write_data(NET, instance()[0], 1.0, folder / "rows", rng=0),
    "learning.spectrum_of": lambda _: al.learning.spectrum_of(np.random.default_rng(0).standard_normal((50, 4))),
    "learning.measure_inputs": lambda _: al.learning.measure_inputs(np.random.default_rng(0).standard_normal((50, 4))),
    "learning.expected": lambda _: al.learning.expected(NET, 0.4),
    "learning.on_instances": lambda _: runs(lambda seed, w, x, y: al.gamp(NET, x, y, teacher=w, max_iter=2, rng=seed)),
    "learning.predicted_overlaps": lambda _: al.learning.predicted_overlaps(NET, 0.4, n_iter=2, samples=64, rng=0),
    "multihead.Watch": lambda _: al.multihead.Watch(),
    "multihead.compared": lambda _: al.multihead.compared(*multihead()[:2], *multihead()[:2], tokens=2),
    "multihead.fit": lambda _: al.multihead.fit(multihead()[2].X, multihead()[2].Y, heads=2, rng=0),
    "blocks.Attention": lambda _: al.blocks.Attention(mask="causal"),
    "blocks.MLP": lambda _: al.blocks.MLP(2, "tanh", [[0.1, 0.2]]),
    "blocks.Norm": lambda _: al.blocks.Norm(),
    "blocks.Output": lambda _: al.blocks.Output(token=1),
    "blocks.Readout": lambda _: al.blocks.Readout("softmax", 3),
    "blocks.Residual": lambda _: al.blocks.Residual(2.0),
    "multihead.hardness": lambda _: al.multihead.hardness((1,), dim=4, samples=100, methods=("lm",), starts=1, rng=0),
    "multihead.learn_multihead": lambda _: learned(),
    "multihead.make_examples": lambda _: multihead()[2],
    "multihead.sculpt": lambda _: learned(method=al.multihead.sculpt),
}
#: Names that stand for a class of which another entry has an object.
CLASSES = {
    *("aim.AMPResult", "aim.DescentResult", "aim.EvolutionPoint", "aim.FreeEntropyPoint", "aim.HeadsPoint"),
    *("aim.LayersDescent", "aim.PredictionErrors", "aim.SpectrumResult", "aim.Threshold", "aim.WidthEstimate"),
    *("classifier.Corpus", "classifier.Embedded", "classifier.Training", "committee.CommitteeState"),
    *("committee.CommitteeThreshold", "derivations.Architecture", "free_energy.FreeEntropy"),
    *(
        "free_energy.OutputEntropy",
        "free_energy.Prior",
        "free_energy.Spectrum",
        "free_energy.StationaryPoint",
        "learning.DescentResult",
    ),
    *(
        "learning.GAMPResult",
        "learning.Inputs",
        "learning.Instances",
        "multihead.MultiheadFit",
        "multihead.MultiheadLearner",
    ),
    *("multihead.SculptResult", "multihead.TeacherData"),
}
#: Names of functions that give text, numbers, arrays, a picture or nothing, and of what is no object of its own.
PLAIN = {
    *("cite", "explain", "make_data", "teacher", "derivations.ProofError", "multihead.LearnWarning"),
    *(f"aim.{name}" for name in "above_zero deep_outputs exact_number hardmax_tail heads_teacher indices".split()),
    *(f"aim.{name}" for name in "network_matrix predict refuse_size teacher unmixed whole_sizes".split()),
    *(f"classifier.{name}" for name in "docstring_corpus half_time label_numbers word_vectors write_corpus".split()),
    *(f"derivations.{name}" for name in "derive_all exact explain_blocks explain_link explain_record".split()),
    *(f"derivations.{name}" for name in "package_name read_activation with_section write_link_package".split()),
    *(f"free_energy.{name}" for name in "draw draw_stationary landscape usual_samples".split()),
    *(f"learning.{name}" for name in "alpha_of draw_runs informed_start mean_of refuse_size".split()),
    *("learning.side_information", "learning.spectral_start", "learning.standard_error", "learning.write_data"),
    *(f"multihead.{name}" for name in "count hull_net hull_singular_values make_teacher parameter_error".split()),
    *("multihead.refuse_size", "multihead.residual_histogram"),
}


def public():
    """Full names of functions and classes of the front door and of its fields."""
    for field in ("", *FIELDS):
        module = getattr(al, field) if field else al
        yield from (f"{field}.{name}".lstrip(".") for name in module.__all__ if callable(getattr(module, name)))


def ours(value, seen):
    """Objects of classes of this package in a value, however deep, by their classes."""
    kind = type(value)
    if isinstance(value, dict | list | tuple | set | frozenset):
        for entry in list(value.values() if isinstance(value, dict) else value)[:50]:
            ours(entry, seen)
    if not kind.__module__.startswith("attnlimits") or kind in seen:
        return seen
    if not kind.__name__.startswith("_"):
        seen[kind] = value
    for name in [*getattr(kind, "__dataclass_fields__", ()), *getattr(value, "__dict__", ())]:
        if not name.startswith("_"):
            ours(getattr(value, name), seen)
    return seen


def test_every_public_name_has_an_entry():
    names = list(public())
    assert sorted(names) == sorted([*OBJECTS, *CLASSES, *PLAIN])


@pytest.mark.slow_for("report", "multihead.learn_multihead", "aim.estimate_rho", "classifier.repeated", "aim.instance")
@pytest.mark.parametrize("name", OBJECTS)
def test_what_is_handed_out_shows_itself_and_has_help(name, tmp_path):
    made = OBJECTS[name](tmp_path)
    found = ours(made, {})
    assert found or type(made).__name__ == "Dataset"
    for kind, value in found.items():
        text = repr(value)
        assert " object at 0x" not in text, kind
        assert len(text.splitlines()) <= MOST_LINES and len(text) <= MOST_CHARACTERS, f"{kind}: {text}"
        assert kind.__name__ in text
        assert value._repr_html_().startswith("<pre>"), kind
        assert len(inspect.getdoc(kind).split()) >= 3, kind


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_objects_of_every_public_class_are_among_them(name):
    """By the annotation of a function that gives one, or of a field of what is given."""
    field, _, kind = name.rpartition(".")
    given = [al.free_entropy, al.gamp, al.descend, al.learning.mean_of]
    given += [getattr(getattr(al, field), n.rpartition(".")[2]) for n in OBJECTS if n.startswith(f"{field}.")]
    texts = [str(inspect.signature(f).return_annotation) for f in given if not inspect.isclass(f)]
    texts += [str(base) for f in given if inspect.isclass(f) for base in f.__mro__]
    assert any(re.search(rf"\b{kind}\b", text) for text in texts)


def test_what_is_plain_gives_no_object():
    classes = "|".join(name.rpartition(".")[2] for name in CLASSES)
    for name in PLAIN - {"learning.mean_of", "learning.write_data", "classifier.docstring_corpus"}:  # entries of others
        field, _, function = name.rpartition(".")
        found = getattr(getattr(al, field) if field else al, function)
        if inspect.isfunction(found):
            assert not re.search(rf"\b({classes})\b", str(inspect.signature(found).return_annotation)), name


def test_overlaps_off_the_diagonal_are_shown():
    """Of two equal perceptrons both indices know as much of each other as of themselves."""
    found = al.evolve(al.Link("sign(h[1])+sign(h[2])"), 1.0, samples=256)
    assert re.search(r"q_12 = 0\.2\d", repr(found)) and found.to_dict()["overlap"][0][1] > 0.2
    assert "q_12" not in repr(al.evolve(al.Network(2, 2), 0.1, samples=64))
