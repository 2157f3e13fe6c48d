"""Attention of extensive width beside independent routes: message passing at d = 200, quadrature against sampling.

    python tests/numerics/aim/routes.py out.jsonl
    python tests/numerics/aim/routes.py out.jsonl --only heads

Lines of the file are comparisons; cases that are in it are not run again. It prints the table of the page
docs/results/extensive_width.md. Sampling is by NumPy and SciPy from the model's definitions. Names begin with topics.
"""

import argparse
import itertools
import json
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.special import softmax
from scipy.stats import multivariate_normal

from attnlimits.numerics.aim.amp import amp
from attnlimits.numerics.aim.channels import channel
from attnlimits.numerics.aim.data import instance, make_data, teacher
from attnlimits.numerics.aim.free_energy import free_entropy_at
from attnlimits.numerics.aim.heads import heads_channel, heads_width
from attnlimits.numerics.aim.instances import amp_instances
from attnlimits.numerics.aim.last_layer import LastLayer, unmixed
from attnlimits.numerics.aim.law import spectrum
from attnlimits.numerics.aim.layers import deep_outputs, network_matrix
from attnlimits.numerics.aim.prediction import errors_on_data, prediction_errors
from attnlimits.numerics.aim.rie import denoise_matrix
from attnlimits.numerics.aim.spectrum import mmse
from attnlimits.numerics.aim.state_evolution import evolve
from attnlimits.numerics.aim.width import estimate_rho
from attnlimits.numerics.core.standard_error import SIGMAS, standard_error
from attnlimits.papers.boncoraglio2025.figures import amp_runs, size_runs

__all__ = ["CASES", "SIGMAS", "apart", "table", "topic_of"]

RHO, SAMPLES = 0.5, 1_000_000


def mean(values):
    """Mean and its standard error."""
    values = np.asarray(values, np.float64)
    return float(values.mean()), float(standard_error(values))


def line(what, first, second):
    """Two numbers with their errors, each one (value, error)."""
    return {"what": what, "first": first, "second": second}


def of(estimate):
    """An `Estimate` as (value, error)."""
    return estimate.value, estimate.error


# Errors of prediction, and message passing.


def symmetric(spread, count, tokens, rng):
    """Symmetric Gaussian scores of variance spread^2 (1 + delta_ab)."""
    z = rng.standard_normal((count, tokens, tokens))
    return spread * (z + z.swapaxes(1, 2)) / math.sqrt(2)


def outputs(name, beta):
    """An activation from its definition."""
    if name == "softmax":
        return lambda h: softmax(beta * h, axis=2)
    if name == "hardmax":
        return lambda h: np.eye(h.shape[2])[h.argmax(axis=2)]
    return {"linear": lambda h: h, "tanh(z)": lambda h: np.tanh(beta * h)}[name]


def prediction(name, tokens, beta, V):
    """By quadrature, and from two draws of h given omega."""
    rng, f = np.random.default_rng(9), outputs(name, beta)
    found = prediction_errors(V, RHO, channel(name, tokens, beta))
    parts = []
    for _ in range(10):
        omega = symmetric(math.sqrt(1 + RHO - V), SAMPLES // 10, tokens, rng)
        one, other = (f(omega + symmetric(math.sqrt(V), len(omega), tokens, rng)) for _ in range(2))
        # E |y - y'|^2/2 of two draws is that of the posterior mean.
        both = (0.5 * (one - other) ** 2, (one - f(omega)) ** 2)
        parts.append([part.sum(axis=(1, 2)) for part in both])
    said = f"{name}, T = {tokens}, beta = {beta:g}, V = {V:g}"
    sampled = [np.concatenate(part) for part in zip(*parts, strict=True)]
    names = ("posterior mean", "plug-in")
    for kind, estimate, values in zip(names, (found.posterior_mean, found.plug_in), sampled, strict=True):
        yield line(f"{said}: {kind}", of(estimate), mean(values))


def instances(name, tokens, alpha, noise=0.0, d=200, count=8, fresh=True):
    """State evolution, and message passing on instances and on fresh samples."""
    output = channel(name, tokens, noise=noise)
    found = amp_instances(alpha, RHO, d, output, count=count, tol=1e-6, max_iter=400)
    expected = evolve(alpha, RHO, output).mmse
    said = f"{name}, T = {tokens}, alpha = {alpha:g}{f', noise {noise:g}' if noise else ''}, d = {d}"
    yield line(f"{said}: estimation", of(expected), mean([r.mmse for r in found.results]))
    if fresh:
        theory = prediction_errors(expected, RHO, output)
        yield line(f"{said}: posterior mean", of(theory.posterior_mean), of(found.prediction.posterior_mean))
        yield line(f"{said}: plug-in", of(theory.plug_in), of(found.prediction.plug_in))


def finite_d(tokens):
    """Relative bias of errors of prediction by estimates that the matrix denoiser makes, without message passing."""
    output = channel("softmax", tokens)
    # Both numbers of tokens at one V.
    delta = 1 / evolve(0.1, RHO, channel("softmax")).q_hat
    V = mmse(RHO, delta).value
    theory = prediction_errors(V, RHO, output).posterior_mean
    for d, count in ((50, 40), (100, 40), (200, 40), (400, 12)):
        found = []
        for seed in range(count):
            rng = np.random.default_rng([seed, d])
            S = teacher(d, RHO, rng)
            Y = S + symmetric(math.sqrt(delta / d), 1, d, rng)[0]
            estimate = denoise_matrix(Y, RHO, delta).estimate
            error = errors_on_data(S, estimate, V, output, samples=4000, rng=rng).posterior_mean.value
            found.append(error / theory.value - 1)
        said = f"softmax, T = {tokens}, bias of the error of prediction, estimates of the denoiser at d = {d}"
        yield line(said, (0.0, theory.error / theory.value), mean(found))


def further(tokens, alpha, d=200, seeds=range(8, 24)):
    """Relative biases of instances that `instances` does not have, with more fresh samples."""
    output, found = channel("softmax", tokens), []
    expected = evolve(alpha, RHO, output).mmse
    limit = prediction_errors(expected, RHO, output)
    for seed in seeds:
        S = teacher(d, RHO, seed)
        learned = amp(*make_data(S, alpha, output, seed), output, RHO, teacher=S, tol=1e-6, max_iter=400)
        V = max(learned.predicted, 0.0)
        fresh = errors_on_data(S, learned.estimate, V, output, samples=4000, rng=seed)
        found.append([learned.mmse, fresh.posterior_mean.value, fresh.plug_in.value])
    columns = zip((expected, limit.posterior_mean, limit.plug_in), np.transpose(found), strict=True)
    for name, (theory, values) in zip(("estimation", "posterior mean", "plug-in"), columns, strict=True):
        said = f"softmax, T = {tokens}, alpha = {alpha:g}, d = {d}, {len(seeds)} further instances, bias: {name}"
        yield line(said, (0.0, theory.error / theory.value), mean(values / theory.value - 1))


# Spectrum, free energy, descent, width from data.


def denoised(rho, delta, d=200, count=100):
    """The matrix denoiser's error and the law of eigenvalues, and random matrices."""
    rng, errors, below = np.random.default_rng(10), [], []
    law = spectrum(rho, delta, points=4001)
    share = np.concatenate([[0], np.cumsum(0.5 * (law.density[1:] + law.density[:-1]) * np.diff(law.x))])
    for _ in range(count):
        S = teacher(d, rho, rng)
        Y = S + symmetric(math.sqrt(delta / d), 1, d, rng)[0]
        errors.append(((S - denoise_matrix(Y, rho, delta).estimate) ** 2).sum() / d)
        below.append((np.linalg.eigvalsh(Y) < 0).mean())
    said = f"rho = {rho:g}, Delta = {delta:g}, {count} matrices of d = {d}"
    yield line(f"MMSE, {said}", of(mmse(rho, delta)), mean(errors))
    yield line(f"eigenvalues below 0, {said}", (float(np.interp(0, law.x, share)), 1e-6), mean(below))


def entropy_of_labels(alpha):
    """Psi_out of hardmax of two tokens, and log Z of sampled labels by the bivariate normal law."""
    found, rng = free_entropy_at(alpha, RHO, channel("hardmax")), np.random.default_rng(11)
    V = found.mmse.value
    omega = symmetric(math.sqrt(1 + RHO - V), 20_000, 2, rng)
    h = omega + symmetric(math.sqrt(V), len(omega), 2, rng)
    # h_11 - h_12 and h_22 - h_12: variances 3 V, covariance V.
    covariance = V * np.array([[3.0, 1.0], [1.0, 3.0]])
    sign = np.sign(np.stack([h[:, 0, 0] - h[:, 0, 1], h[:, 1, 1] - h[:, 0, 1]], axis=1))
    middle = np.stack([omega[:, 0, 0] - omega[:, 0, 1], omega[:, 1, 1] - omega[:, 0, 1]], axis=1)
    terms = np.empty(len(h))
    for pattern in itertools.product((-1.0, 1.0), repeat=2):
        rows = (sign == pattern).all(axis=1)
        flipped = multivariate_normal(cov=covariance * np.outer(pattern, pattern))
        terms[rows] = flipped.logcdf(middle[rows] * pattern)
    yield line(f"Psi_out of hardmax, alpha = {alpha:g}, V = {V:.4f}", of(found.psi_out), mean(terms))


def descents():
    """Stored errors of descent of two to six tokens, which are those of two at the same number of functionals."""
    for method, name in (("gd", "one student"), ("agd", "mean of 32")):
        for tokens, alphas in ((3, (0.03448, 0.04924)), (6, (0.00862, 0.01231))):
            for alpha, two in zip(alphas, (0.0862, 0.1231), strict=True):
                places = [{"tokens": 2, "alpha": two}, {"tokens": tokens, "alpha": alpha}]
                runs = [amp_runs.stored({"method": method, "dimension": 100, **place})[0] for place in places]
                numbers = [(r["mmse"], r["error"]) for r in runs]
                yield line(f"descent, {name}, T = 2 and T = {tokens}, alpha = {alpha:g}, d = 100", *numbers)


def widths(name, alpha, d=40, count=8):
    """The width of teachers, and its estimates."""
    output, found = channel(name), []
    for seed in range(count):
        S = teacher(d, RHO, seed)
        found.append(estimate_rho(*make_data(S, alpha, output, seed), output).rho)
    yield line(f"rho of {count} teachers, {name}, alpha = {alpha:g}, d = {d}", (RHO, 0.0), mean(found))


# Heads and layers.


def heads(number, alpha, noise, d=200, count=24):
    """State evolution of the sum of heads of width 1/4, and message passing; the bias of stored instances."""
    output = heads_channel("softmax", number, noise=noise)
    width = heads_width(number, 0.25, d)
    found = amp_instances(alpha, 0.25, d, output, count=count, heads=number, tol=1e-6, max_iter=300)
    expected = evolve(alpha, width, output).mmse
    said = f"{number} heads, alpha = {alpha:g}{f', noise {noise:g}' if noise else ''}, d = {d}"
    yield line(said, of(expected), mean([r.mmse for r in found.results]))
    runs = [r for r in size_runs.stored() if r["heads"] == number]
    parts = [size_runs.excess([r for r in runs if r["drawn"] == drawn]) for drawn in ("one", "sum")]
    for (size, one), (_, other) in zip(*parts, strict=True):
        yield line(f"{number} heads, bias at d = {size} of one layer as wide, and of the sum", of(one), of(other))
    (least, first), *rest = [(size, (size * e.value, size * e.error)) for size, e in size_runs.excess(runs)]
    for size, other in rest:
        yield line(f"{number} heads, d times the bias at d = {least} and at d = {size}", first, other)


def last_layer(alpha, d=200, count=10):
    """State evolution of the last of two layers where the first is known, and message passing."""
    found = []
    for seed in range(count):
        first, last = teacher(d, RHO, 1000 + seed), teacher(d, RHO, seed)
        rng = np.random.default_rng([12, seed])
        x = rng.standard_normal((round(alpha * d**2), 2, d))
        h = np.stack([(x @ S @ x.swapaxes(1, 2) - np.trace(S) * np.eye(2)) / math.sqrt(d) for S in (first, last)])
        seen = unmixed(deep_outputs(h, 1.0), network_matrix(h[:1], 1.0))
        found.append(amp(x, seen, LastLayer(2), RHO, teacher=last, tol=1e-6, max_iter=400).mmse)
    expected = evolve(alpha, RHO, LastLayer(2)).mmse
    yield line(f"last layer of two, alpha = {alpha:g}, d = {d}", of(expected), mean(found))


# The error that message passing states, and precision.


def self_errors(alpha, d=200, count=4):
    """What message passing states of its own error, and the true one."""
    for seed in range(count):
        S, output = teacher(d, RHO, seed), channel("softmax")
        found = amp(*make_data(S, alpha, output, seed), output, RHO, teacher=S, tol=1e-6, max_iter=400)
        said = f"error that is stated, and the true one: alpha = {alpha:g}, seed {seed}, d = {d}"
        # The stated error is a bound.
        yield line(said, (found.predicted, found.predicted_error), (found.mmse, 0.0))


def precisions(alpha, d=100):
    """Tokens in single precision, from a file, and outputs in logarithms: the same estimate."""
    S, output, logs = teacher(d, RHO, 0), channel("softmax"), channel("softmax", logarithms=True)
    x, y = instance(S, alpha, output, 0, dtype=np.float32)
    plain = amp(x, y, output, RHO, teacher=S, tol=1e-6).mmse
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", x)
        mapped = amp(np.load(Path(folder) / "x.npy", mmap_mode="r"), y, output, RHO, teacher=S, tol=1e-6).mmse
    double = amp(x.astype(np.float64), y, output, RHO, teacher=S, tol=1e-6).mmse
    rounded = amp(x, np.log(y), logs, RHO, teacher=S, tol=1e-6).mmse
    for what, other in (("double precision", double), ("a file that is mapped", mapped), ("log y", rounded)):
        yield line(f"float32 tokens and {what}, alpha = {alpha:g}, d = {d}", (plain, 0.0), (other, 0.0))


CASES = {
    "prediction: softmax 2": lambda: prediction("softmax", 2, 1.0, 0.4),
    "prediction: softmax 3": lambda: prediction("softmax", 3, 3.0, 0.2),
    "prediction: hardmax 2": lambda: prediction("hardmax", 2, 1.0, 0.4),
    "prediction: hardmax 3": lambda: prediction("hardmax", 3, 1.0, 0.1),
    "prediction: linear": lambda: prediction("linear", 2, 1.0, 0.4),
    "prediction: tanh": lambda: prediction("tanh(z)", 2, 2.0, 0.4),
    "message passing: softmax 2": lambda: instances("softmax", 2, 0.1),
    "message passing: softmax 3": lambda: instances("softmax", 3, 0.04),
    "message passing: linear": lambda: instances("linear", 2, 0.08),
    "message passing: hardmax 2": lambda: instances("hardmax", 2, 0.3),
    "finite d: 2 tokens": lambda: finite_d(2),
    "finite d: 3 tokens": lambda: finite_d(3),
    "finite d: further instances": lambda: further(3, 0.04),
    "finite d: 5 tokens, message passing": lambda: instances("softmax", 5, 0.02, d=100, count=16, fresh=False),
    "finite d: 6 tokens, message passing": lambda: instances("softmax", 6, 0.01231, d=100, count=16, fresh=False),
    "denoiser": lambda: denoised(0.5, 0.5),
    "denoiser: with a gap": lambda: denoised(0.1, 0.05),
    "free energy": lambda: entropy_of_labels(0.3),
    "descent": descents,
    "many tokens: 5": lambda: instances("softmax", 5, 0.02, fresh=False),
    "many tokens: 6": lambda: instances("softmax", 6, 0.01231, fresh=False),
    "many tokens: 5, d = 400": lambda: instances("softmax", 5, 0.02, d=400, fresh=False),
    "many tokens: hardmax": lambda: instances("hardmax", 6, 0.04, count=4),
    "noise: softmax": lambda: instances("softmax", 2, 0.15, 0.3),
    "noise: hardmax": lambda: instances("hardmax", 2, 0.3, 0.5),
    "noise: hardmax 3": lambda: instances("hardmax", 3, 0.2, 0.5),
    "noise: tanh": lambda: instances("tanh(z)", 2, 0.15, 0.3),
    "width": lambda: widths("linear", 0.2),
    "heads: 2": lambda: heads(2, 0.1, 0.0),
    "heads: 3": lambda: heads(3, 0.15, 0.3),
    "last layer": lambda: last_layer(0.1),
    "stated error: below recovery": lambda: self_errors(0.1),
    "stated error: above recovery": lambda: self_errors(0.3),
    "precision": lambda: precisions(0.15),
}


def topic_of(case):
    """What a case is about, the first words of its name."""
    return case.partition(":")[0]


def apart(row):
    """Distance of the two numbers in units of their errors, or itself where there are none."""
    (one, first), (other, second) = row["first"], row["second"]
    return f"{(other - one) / math.hypot(first, second):+.1f}" if first or second else f"differ by {other - one:.0e}"


def run(out, only=""):
    """Rows of the file, with those of cases that it lacks added, in the order of the cases."""
    rows = [json.loads(text) for text in out.read_text().splitlines()] if out.exists() else []
    done = {row["case"] for row in rows}
    for case, make in CASES.items():
        if case in done or only not in case:
            continue
        begin = time.process_time()
        made = list(make())
        seconds = time.process_time() - begin
        for row in made:
            rows.append({"case": case, **row, "seconds": seconds})
            with out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    return sorted(rows, key=lambda row: list(CASES).index(row["case"]))


def table(rows):
    """Lines of Markdown."""
    yield "| topic | what | one route | the other | apart, in errors | seconds |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        numbers = [f"{value:.6g} +- {error:.2g}" for value, error in (row["first"], row["second"])]
        topic = topic_of(row["case"])
        yield f"| {topic} | {row['what']} | {' | '.join(numbers)} | {apart(row)} | {row['seconds']:.0f} |"


def main():
    """Run the cases from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="", help="part of the name of a case")
    args = parser.parse_args()
    print("\n".join(table(run(args.out, args.only))))


if __name__ == "__main__":
    main()
