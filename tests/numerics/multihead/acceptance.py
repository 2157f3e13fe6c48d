"""The learner by itself: 200 blind fits of eight families, and certificates of 200 layers.

    python tests/numerics/multihead/acceptance.py blind out.jsonl --from 0 --to 200
    python tests/numerics/multihead/acceptance.py certificates out.jsonl

Lines of the file are instances; those that are in it are not run again. The last line printed is the summary.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from families import FAMILIES, OPEN_INPUTS

from attnlimits.numerics.multihead.layer import multihead
from attnlimits.numerics.multihead.learn import learn_multihead
from attnlimits.numerics.multihead.matching import match_heads
from attnlimits.numerics.multihead.teachers import make_examples, make_teacher

NOISES = (0.0, 0.05, 0.1)


def blind(number):
    """Learn a layer of which neither the heads nor the noise are told."""
    family = list(FAMILIES)[number % 8]
    rng = np.random.default_rng([24, number])
    m, noise = 1 + number // 8 % 4, NOISES[number // 32 % 3]
    d, k, samples = int(rng.integers(4, 6)), 2 + (rng.random() < 0.25), int(rng.choice([1500, 2500, 4000]))
    theta, w = FAMILIES[family](m, d, rng)
    made = make_examples(theta, w, samples=samples, tokens=k, noise=noise, rng=rng)
    begin = time.process_time()
    fit = learn_multihead(made.X, made.Y, "auto", strict=False, rng=number)
    told = {"number": number, "family": family, "m": m, "noise": noise, "d": d, "k": k, "samples": samples}
    told |= {"heads": fit.heads, "exact": fit.evidence.exact, "converged": fit.converged, "status": fit.status}
    return told | {"inside": covered(fit, theta, w), "seconds": time.process_time() - begin}


def covered(fit, theta, w):
    """Whether each Theta_i and W_i is within its stated error, of fits with the true number of heads."""
    if fit.certificates.heads is None or fit.heads != len(theta):
        return []
    order = np.argsort(match_heads(fit.theta, fit.w, theta, w))
    inside = []
    for head, *parts in zip(fit.certificates.heads, fit.theta, theta[order], fit.w, w[order], strict=True):
        for found, true, error in ((*parts[:2], head.theta_error), (*parts[2:], head.w_error)):
            inside.append(bool(np.linalg.norm(found - true) <= error))
    return inside


def certificate(number):
    """Certify a layer whose parameters the examples leave open, and one of which they do not."""
    kinds = [*OPEN_INPUTS, "equal heads", "few examples"]
    kind = kinds[number % len(kinds)]
    rng = np.random.default_rng([25, number])
    m, d, k = (int(rng.integers(low, high)) for low, high in ((1, 4), (4, 7), (2, 4)))
    m += kind == "equal heads" and m == 1
    noise = float(rng.choice(NOISES))
    theta, w = make_teacher("gauss", m, d, rng=rng)
    X = rng.choice([-1.0, 1.0], (2000, k, d))
    fine = _learned(X, theta, w, noise, rng)
    if kind == "equal heads":
        theta[1] = theta[0]
    elif kind == "few examples":
        # A fifth is held out.
        X = X[: max(2, int(2 * m * d / k))]
    else:
        OPEN_INPUTS[kind](X, rng)
    broken = _learned(X, theta, w, noise, rng)
    told = {"number": number, "kind": kind, "m": m, "d": d, "k": k, "noise": noise}
    return told | {
        "named": not broken.certificates.passed and not broken.converged,
        "said": broken.certificates.status,
        "accused": not fine.certificates.passed,
        "fine": fine.status,
        "fine_converged": fine.converged,
    }


def _learned(X, theta, w, noise, rng):
    clean = multihead(X, theta, w)
    noise_std = noise * float(np.sqrt(np.mean(clean**2)))
    Y = clean + noise_std * rng.standard_normal(clean.shape)
    return learn_multihead(X, Y, len(theta), "restarts", noise_std=noise_std, strict=False, rng=0)


def summary_blind(rows):
    """Shares of the acceptance line, and the fits that fail it."""
    right = [r["heads"] == r["m"] if r["exact"] else r["heads"] <= r["m"] for r in rows]
    wrong = [r["number"] for r in rows if r["converged"] and r["heads"] != r["m"]]
    inside = [one for r in rows for one in r["inside"]]
    return {
        "fits": len(rows),
        "right or at least": sum(right),
        "failed": [r["number"] for r, fine in zip(rows, right, strict=True) if not fine],
        "wrong and converged": wrong,
        "m right": sum(r["heads"] == r["m"] for r in rows),
        "exact": sum(r["exact"] for r in rows),
        "converged": sum(r["converged"] for r in rows),
        "matrices with an interval": len(inside),
        "covered": sum(inside),
        "seconds": round(sum(r["seconds"] for r in rows)),
    }


def summary_certificates(rows):
    """Counts of the acceptance line."""
    return {
        "instances": len(rows),
        "named": sum(r["named"] for r in rows),
        "not named": [r["number"] for r in rows if not r["named"]],
        "accused": [r["number"] for r in rows if r["accused"]],
        "converged where fine": sum(r["fine_converged"] for r in rows),
    }


STUDIES = {"blind": (blind, summary_blind), "certificates": (certificate, summary_certificates)}


def run(study, numbers, out=None):
    """Rows of a study; those in the file are not run again."""
    make, _ = STUDIES[study]
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out is not None and out.exists() else []
    done = {row["number"] for row in rows}
    with warnings.catch_warnings():
        # The status says the same.
        warnings.simplefilter("ignore")
        for number in numbers:
            if number not in done:
                rows.append(make(number))
                if out is not None:
                    with out.open("a") as file:
                        file.write(json.dumps(rows[-1]) + "\n")
    return rows


def main():
    """Run a study from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("out", type=Path)
    parser.add_argument("--from", dest="begin", type=int, default=0)
    parser.add_argument("--to", dest="end", type=int)
    parser.add_argument("--step", type=int, default=1)
    args = parser.parse_args()
    end = args.end if args.end is not None else (200 if args.study == "blind" else 100)
    rows = run(args.study, range(args.begin, end, args.step), args.out)
    print(json.dumps(STUDIES[args.study][1](rows), indent=1))


if __name__ == "__main__":
    main()
