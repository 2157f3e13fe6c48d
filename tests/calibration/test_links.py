"""Links of the user's own: thresholds and state evolution."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from harness import Answer, Route, Settings, calibration_tests
from mpmath.ctx_mp import MPContext
from products import ellipse, of_cosine, of_product, power_link
from signs import fixed_point
from sums import EVEN as SMOOTH
from sums import rising

from attnlimits.numerics.fixed_point.link import evolve
from attnlimits.numerics.model.link_kernels import kernel_of
from attnlimits.numerics.thresholds.link import thresholds as link_thresholds

EXACT = MPContext()
EXACT.dps = 40
_PI = EXACT.pi
# alpha_c of links in closed form, from E (E[h h^T | y] - I)^2.
CLOSED = {
    "h**2": EXACT.mpf(1) / 2,
    "abs(h)": EXACT.mpf(1) / 2,
    "sign(h[1]*h[2])": _PI**2 / 4,
    "h[1]**2 + h[2]**2": EXACT.mpf(1),
    "(h[1] + h[2])**2": EXACT.mpf(1) / 2,
    "h**4": EXACT.mpf(1) / 2,
    "sign(h[1])*sign(h[2])": _PI**2 / 4,
    "(h[1] - 2*h[2])**2": EXACT.mpf(1) / 2,
}
# The same of links that are known here and averaged there.
KNOWN = {
    "h[1]/h[2]": EXACT.mpf(1),
    "abs(h[1]/h[2])": EXACT.mpf(2),
    "h[1]**2*sign(h[1]*h[2])": 1 / (1 + EXACT.sqrt(1 + 4 / _PI**2)),
    "argmax([abs(h[1]), abs(h[2])])": _PI**2 / 4,
    "argmax([abs(h[1]), abs(h[2]), abs(h[3])])": _PI**2 / 6,
}
# Even functions of one entry: alpha_c = 1/E (E[h^2 | y] - 1)^2 by plain sums over h and y.
EVEN = {"h**2": lambda h: h**2, "abs(h)": np.abs, "cos(h)": np.cos, "exp(-h**2)": lambda h: np.exp(-(h**2))}
NOISES = ("0.05", "0.2", "1", "3")


def _digits(links: Iterable[str], most: int) -> list[Settings]:
    return [{"link": text, "digits": n} for text in links for n in (None, *range(1, most + 1))]


def _closed(s: Settings) -> Answer:
    found = link_thresholds.threshold(kernel_of(s["link"]), digits=s["digits"])
    if found.value is None or found.error is None:
        return Answer(0, 0, found.how, flagged=True)
    return Answer(EXACT.mpf(found.value), found.error, found.how, not found.converged)


# Links with parameters, and the norm of their operator (15).
NORMS = {"ellipse": ellipse, "cosine": of_cosine, "product": of_product}


def _parametric(rng: np.random.Generator) -> list[Settings]:
    """Sums of two squares from near a circle to far from it, cosines of few and many folds, products of powers."""
    cases: list[Settings] = []
    for k in range(90):
        if k % 3 == 0:
            a = float(f"{1 + 10 ** rng.uniform(-2, 1.5):.4g}")
            text, kind, of = f"{a:g}*h[1]**2 + h[2]**2", "ellipse", (a,)
        elif k % 3 == 1:
            a = float(f"{rng.uniform(0.3, 3):.3g}")
            text, kind, of = f"cos({a:g}*h)", "cosine", (a,)
        else:
            signed = bool(k % 2)
            powers = [int(rng.choice([1, 3] if signed else [1, 2, 3])) for _ in range(2)]
            text, kind, of = power_link(powers, signed), "product", (tuple(powers), signed)
        digits = int(rng.integers(0, 10)) or None
        cases.append({"link": text, "kind": kind, "of": of, "digits": digits})
    return cases


def _known(s: Settings) -> tuple[Any, Any]:
    if "kind" not in s:
        return KNOWN[s["link"]], 1e-35
    norm, error = NORMS[s["kind"]](*s["of"])
    return 1 / norm, error / norm**2


def _noisy(rng: np.random.Generator) -> list[Settings]:
    return [
        {"link": text, "noise": noise, "digits": n}
        for text in EVEN
        for noise in NOISES
        for n in (None, 1, 2, 3, 5, 6, 7)
    ]


@cache
def _found(text: str, noise: str, digits: int | None) -> Any:
    return link_thresholds.threshold(kernel_of(text, noise=noise), digits=digits)


def _with_noise(s: Settings) -> Answer:
    found = _found(s["link"], s["noise"], s["digits"])
    return Answer(float(found.value), found.error, found.how, not found.converged)


@cache
def _plain(text: str, noise: str, order: int) -> float:
    """1/E (E[h^2 | y] - 1)^2 for y = g(h) + noise: Gauss's rule on panels of h > 0, a trapezoidal sum over y."""
    sigma = float(noise) ** 0.5
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = 6.0 / 150
    h = (half * (nodes + 1) + 2 * half * np.arange(150)[:, None]).ravel()
    weight = np.tile(half * weights, 150) * np.exp(-0.5 * h * h) * np.sqrt(2 / np.pi)
    values = EVEN[text](h)
    top = min(values.max(), 70.0)
    total, step = 0.0, 1.6 / order
    for y in np.arange(values.min() - 9 * sigma, top + 9 * sigma, step * sigma):
        likelihood = weight * np.exp(-0.5 * ((y - values) / sigma) ** 2)
        z = likelihood.sum()
        if z > 1e-300:
            total += (likelihood @ (h * h - 1)) ** 2 / z
    return float(1 / (total * step / np.sqrt(2 * np.pi)))


def _by_sums(s: Settings) -> tuple[float, float]:
    fine, coarse = (_plain(s["link"], s["noise"], order) for order in (12, 8))
    return fine, abs(fine - coarse) + 1e-13


def _even(rng: np.random.Generator) -> list[Settings]:
    """Both sides of the threshold 1/2, and of the jump at 1.1285, closely and widely."""
    cases = []
    for k in range(110):
        near = 10 ** rng.uniform(-4, -0.5) * rng.choice([-1, 1])
        alpha = 0.5 * (1 + near) if k % 3 == 0 else 1.128471 * (1 + near) if k % 3 == 1 else rng.uniform(0, 3)
        cases.append({"link": "h**2" if k % 2 else "abs(h)", "alpha": float(alpha)})
    return [*cases, {"link": "h**2", "alpha": 0.5005}, {"link": "h**2", "alpha": 0.5}, {"link": "h**2", "alpha": 0.0}]


def _risen(rng: np.random.Generator) -> list[Settings]:
    """Overlaps to which an uninformed start rises, with alpha of each."""
    cases: list[Settings] = []
    while len(cases) < 100:
        text, noise = str(rng.choice(list(SMOOTH))), str(rng.choice(["0.1", "0.5", "2"]))
        q = float(10 ** rng.uniform(-3, -0.3) if rng.integers(2) else rng.uniform(0.1, 0.9))
        if (found := rising(q, text, noise)) is not None:
            cases.append({"link": text, "noise": noise, "alpha": found[0], "q": q, "off": found[1]})
    return cases


def _noisy_overlap(s: Settings) -> Answer:
    found = evolve(kernel_of(s["link"], noise=s["noise"]), s["alpha"])
    return Answer(found.overlap[0, 0], found.overlap_error[0, 0], found.estimation_error.how, not found.converged)


def _evolve(s: Settings) -> Answer:
    found = evolve(kernel_of(s["link"]), s["alpha"])
    return Answer(found.overlap[0, 0], found.overlap_error[0, 0], found.estimation_error.how, not found.converged)


ROUTES = (
    Route(
        "threshold, links in closed form",
        "rigorous",
        lambda rng: _digits(CLOSED, 13),
        _closed,
        lambda s: (CLOSED[s["link"]], 1e-35),
        "closed forms, 40 digits",
        sample=4,
    ),
    Route(
        "threshold, links without noise, quadrature",
        "estimated",
        lambda rng: _digits(KNOWN, 8) + _parametric(rng),
        _closed,
        _known,
        "closed forms, convolutions, Bessel functions, folds",
        sample=(18, 27, 67),
    ),
    Route(
        "threshold, even links with noise, quadrature",
        "estimated",
        _noisy,
        _with_noise,
        _by_sums,
        "panels of h, plain sums over y",
        sample=1,
    ),
    Route(
        "evolve, h**2 and abs(h)",
        "estimated",
        _even,
        _evolve,
        lambda s: fixed_point(s["alpha"], 1),
        "sum over the two signs, finer rule",
        sample=3,
    ),
    Route(
        "evolve, even links with noise, quadrature",
        "estimated",
        _risen,
        _noisy_overlap,
        lambda s: (s["q"], s["off"]),
        "plain sums over omega, h and y",
        # Seconds each; test_noisy_links.py holds fixed points against the same sums.
        sample=0,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
