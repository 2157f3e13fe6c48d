"""Forty commands of the state evolution, thresholds and free energies, of every class of models, at quick settings."""

import contextlib
import io
import json
import shlex
from typing import Any

from attnlimits.numerics.cli.main import main

__all__ = ["cases", "run"]

# One layer and more, tied or not, of several indices, tokens and heads, softmax and linear; links that are smooth,
# discrete, of several outputs and noisy, from formulas, rules and samples; extensive width; many layers.
_LINES = """
threshold --layers 2 --digits 12
threshold --layers 2 --digits 8 --skip 0.05
threshold --layers 2 --digits 20
threshold --layers 2 --tokens 3 --digits 6
threshold --layers 3 --digits 6
threshold --activation linear --digits 12
threshold --layers 1 --rank 2
threshold --layers 1 --tokens 3 --untied
threshold --layers 1 --heads 3
threshold --layer 1 --given perfect --samples 256
threshold --link h[1]**2
threshold --link sign(h[1]*h[2])
threshold --link tanh(h[1])
threshold --link "h[1]**2+sign(h[1]*h[2]*h[3])" --staircase
threshold --link "h[1]*h[2]" --noise 0.25
threshold --link "argmax(h[1,1],h[1,2],h[1,3])"
evolve --layers 1 --tokens 3 --alpha 0.2
evolve --layers 1 --alpha 0.45
evolve --layers 1 --rank 2 --alpha 0.4 --samples 512
evolve --layers 1 --untied --alpha 0.5 --samples 512
evolve --layers 1 --heads 2 --alpha 0.15
evolve --layers 2 --alpha 0.5
evolve --layers 2 --alpha 0.4 --skip 0.3
evolve --layers 2 --activation linear --alpha 0.6 --samples 128 --replicas 4
evolve --layers 3 --alpha 0.5 --samples 16 --replicas 2 --nodes 256
evolve --link "h[1]**2" --alpha 1
evolve --link "sign(h[1])" --alpha 1
evolve --link "h[1]*h[2]" --alpha 1.5 --samples 256 --noise 0.1
evolve --link "abs(h[1])+h[2]" --alpha 1.5 --samples 128
free-energy --layers 1 --alpha 0.3
free-energy --layers 2 --alpha 0.5
free-energy --link "h[1]**2" --alpha 1.05
free-energy --link "sign(h[1])" --prior binary --alpha 1.3
free-energy --link "h[1]" --prior sparse --alpha 0.02 --density 0.01 --noise 0.01
aim evolve --rho 0.5 --alpha 0.1 0.15
aim evolve --activation hardmax --tokens 2 --rho 0.5 --alpha 0.1
aim threshold --rho 1/2 --tokens 3
aim free-energy --rho 0.5 --alpha 0.1
committee --layers 3
committee --layers 4 --alpha 1.6
"""
# Words of a record that are decisions: what was found, by which kind of computation, and of which kind.
_DECISIONS = ("exact", "how", "kind", "prior", "route", "subspace")
# Of the run itself, or of the steps that a search took.
_PASSING = ("history", "origin", "seconds", "versions")


def cases() -> list[str]:
    """Command lines."""
    return [line for line in _LINES.splitlines() if line]


def run(name: str) -> dict[str, Any]:
    """Run a command in this process; its decisions, and its numbers with their errors."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            status = main([*shlex.split(name), "--json"])
        except SystemExit as stop:
            status = int(stop.code or 0)
    decisions: list[str] = [f"exit {status}"]
    numbers: dict[str, list[Any]] = {}
    if text := out.getvalue():
        _walk("", json.loads(text), decisions, numbers)
    return {"decision": "; ".join(decisions), "numbers": numbers}


def _walk(at: str, value: Any, decisions: list[str], numbers: dict[str, list[Any]]) -> None:
    """Collect what a part of a record holds: truth values, words and lengths, and values that have an error."""
    if isinstance(value, list):
        if any(isinstance(one, dict | list) for one in value):
            decisions.append(f"{at}: {len(value)}")
        for k, one in enumerate(value):
            _walk(f"{at}[{k}]", one, decisions, numbers)
    elif isinstance(value, dict):
        for key, one in value.items():
            error = value.get("error" if key == "value" else f"{key}_error")
            if key in _PASSING:
                continue
            if error is not None and one is not None:
                _pair(f"{at}.{key}", one, error, numbers)
            elif isinstance(one, bool) or (key in _DECISIONS and isinstance(one, str | None)):
                decisions.append(f"{at}.{key}: {one}")
            else:
                _walk(f"{at}.{key}", one, decisions, numbers)


def _pair(at: str, value: Any, error: Any, numbers: dict[str, list[Any]]) -> None:
    """Collect the entries of a value and of its error, which have one shape."""
    if isinstance(value, list):
        for k, (one, of) in enumerate(zip(value, error, strict=True)):
            _pair(f"{at}[{k}]", one, of, numbers)
    elif value is not None:
        numbers[at] = [value, error]
