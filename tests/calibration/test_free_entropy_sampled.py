"""Free entropies at an overlap by random points: a layer of rank 2, an untied one, two linear ones, and links."""

import numpy as np
from harness import Answer, Route, Settings, calibration_tests, load_truths
from make_truths import output_of

from attnlimits.numerics.free_energy.entropy import FreeEntropy


def _cases(rng: np.random.Generator) -> list[Settings]:
    # Links without noise are averaged by quadrature.
    stored = [
        one["settings"] for one in load_truths("output_entropies") if one["settings"]["model"].get("noise") != "0"
    ]
    return [
        {
            **stored[k % len(stored)],
            "alpha": float(rng.uniform(0.1, 2)),
            "samples": int(rng.choice([64, 128, 256])),
            "replicas": int(rng.choice([4, 8, 16])),
            "seed": k,
        }
        for k in range(240)
    ]


def _entropy(s: Settings) -> Answer:
    output = output_of(s, samples=s["samples"], replicas=s["replicas"], rng=s["seed"])
    found = FreeEntropy(output, s["alpha"])(np.diag(s["q"]))
    return Answer(found.value, found.error, found.how)


def _truth(s: Settings) -> tuple[float, float]:
    """With the potential of Gaussian weights, (Tr q + log det(I - q))/2."""
    asked = {"model": s["model"], "q": s["q"]}
    stored = next(one for one in load_truths("output_entropies") if one["settings"] == asked)
    q = np.array(s["q"])
    return s["alpha"] * stored["value"] + 0.5 * float((q + np.log1p(-q)).sum()), s["alpha"] * stored["error"]


ROUTES = (
    Route(
        "free-energy, free entropy at an overlap, sampled",
        "monte-carlo",
        _cases,
        _entropy,
        _truth,
        "32768 points, stored",
        sample=2,
    ),
)
test_sample, test_whole = calibration_tests(ROUTES)
