"""Commands whose products, functions and decompositions are rounded otherwise decide alike."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("perturbed.py")
CALLS = {
    "found next to a threshold": ["evolve", "--link", "h[1]**2", "--alpha", "0.5000003"],
    "in doubt next to a threshold": ["evolve", "--link", "h[1]**2", "--alpha", "0.5000000000001"],
    "indices learned together": ["threshold", "--link", "sign(h[1])+sign(h[2])", "--staircase"],
    "maxima": ["free-energy", "--link", "h[1]**2", "--alpha", "0.55"],
}


def answered(seed: int, call: list[str]) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, str(SCRIPT), str(seed), "-m", "attnlimits", *call, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def decisions(value: Any) -> Any:
    """What is no real number, and no sentence that states some."""
    if isinstance(value, dict):
        return {key: decisions(one) for key, one in value.items() if key not in {"status", "n_iter", "history"}}
    if isinstance(value, list):
        return [decisions(one) for one in value]
    try:
        float(value)
    except (TypeError, ValueError):
        return value
    return value if isinstance(value, bool) else None


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_decisions_do_not_follow_the_last_bits(call: list[str]) -> None:
    code, plain = answered(0, call)
    for seed in (1, 2, 3):
        there, found = answered(seed, call)
        assert there == code
        assert decisions(found) == decisions(plain)


def test_results_are_disturbed_by_rounding_alone() -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import perturbed; perturbed.instrument()\n"
        "import numpy as np\n"
        "from attnlimits.numerics.core.ties import canonical_basis\n"
        "with perturbed.perturbed(1):\n"
        "    a = np.random.default_rng(0).standard_normal((40, 40))\n"
        "    product, exact = perturbed.matmul(a, a), perturbed.matmul(np.eye(40), a)\n"
        "    assert (exact == a).all() and not (product == a @ a).all()\n"
        "    assert (abs(product - a @ a) <= 2**-51 * (abs(a) @ abs(a))).all()\n"
        "    assert (perturbed.matmul(a, a) == product).all()\n"
        "    moved = perturbed.called(np.exp, a)\n"
        "    assert not (moved == np.exp(a)).all() and (abs(moved / np.exp(a) - 1) <= 2**-51).all()\n"
        "    assert canonical_basis.__code__.co_names.count('__rounding__') == 1\n"
        "assert (perturbed.called(np.exp, a) == np.exp(a)).all()\n"
    )
    subprocess.run([sys.executable, "-c", program, str(SCRIPT.parent)], check=True)
