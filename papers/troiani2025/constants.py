"""The table of reference constants: weak-recovery thresholds of the last layer, to as many digits as can be had.

`make constants` recomputes every entry of constants.toml. Each is written to constants.toml.part as soon as it is
known, and read back from there by the next run: an interrupt costs the entry in flight. When the last one is in, the
table replaces constants.toml.
"""

import argparse
import sys
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlimits.numerics.core.errors import ConvergenceError
from attnlimits.numerics.core.progress import Bar
from attnlimits.numerics.model.network import Network
from attnlimits.numerics.thresholds.last_layer import last_layer

__all__ = ["CASES", "TABLE", "Case", "Constant", "compute", "main", "read", "recompute"]

TABLE = Path(__file__).with_name("constants.toml")
_HEADER = """\
# Weak-recovery thresholds alpha = N/D of the last layer of tied attention, rank 1, from the uninformed start:
# troiani2025, (15)-(16), (184)-(185). Written by `make constants`; every digit is right, the last one rounded.
# skip and beta are exact decimals. `how`: rigorous (enclosed by a proof) or estimated (two refinements agree).
"""


@dataclass(frozen=True)
class Case:
    """What a constant is the threshold of, and to how many significant digits; skip and beta are exact decimals."""

    layers: int
    tokens: int
    activation: str
    skip: str
    beta: str
    digits: int

    @property
    def command(self) -> str:
        """The command line that prints it."""
        return (
            f"attnlimits threshold --layers {self.layers} --tokens {self.tokens} --activation {self.activation} "
            f"--skip {self.skip} --beta {self.beta} --digits {self.digits} --json"
        )


@dataclass(frozen=True)
class Constant:
    """An entry of the table; `error` bounds the distance of `value` to the threshold, its rounding included."""

    case: Case
    value: str
    error: float
    how: str
    seconds: float


def _grid() -> Iterable[Case]:
    for skip in ("0.3", "0.5", "1", "2", "5", "10"):
        yield Case(2, 2, "softmax", skip, "1", 50)
    for beta in ("0.5", "2"):
        for skip in ("0.5", "1", "2"):
            yield Case(2, 2, "softmax", skip, beta, 50)
    for skip in ("0.5", "1", "2", "10"):
        yield Case(2, 2, "linear", skip, "1", 50)
    for beta in ("0.5", "2"):
        yield Case(2, 2, "linear", "1", beta, 50)
    yield Case(3, 2, "softmax", "1", "1", 20)
    yield Case(2, 3, "linear", "1", "1", 20)
    yield Case(2, 3, "softmax", "1", "1", 20)
    yield Case(3, 2, "linear", "1", "1", 20)


CASES: tuple[Case, ...] = tuple(_grid())


def compute(case: Case) -> Constant:
    """Compute one constant.

    Raises
    ------
    ConvergenceError
        Fewer digits were reached than the case asks for.
    """
    model = Network(
        layers=case.layers, tokens=case.tokens, activation=case.activation, skip=float(case.skip), beta=float(case.beta)
    )
    begin = time.perf_counter()
    result = last_layer(model, digits=case.digits)
    if not result.converged:
        raise ConvergenceError(f"{case.command}: {result.status}")
    return Constant(case, result.value, float(result.error), result.how, time.perf_counter() - begin)


def read(path: Path = TABLE) -> list[Constant]:
    """Entries of a table."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("constant", [])
    names = Case.__dataclass_fields__
    return [
        Constant(
            Case(**{name: entry[name] for name in names}),
            *(entry[name] for name in ("value", "error", "how", "seconds")),
        )
        for entry in entries
    ]


def recompute(path: Path, cases: Iterable[Case] = CASES, *, progress: Callable[[int, int], None]) -> list[Case]:
    """Compute every case into the table at `path`, going on where an interrupted run stopped.

    Returns
    -------
    list of Case
        The failed ones, if any: the table is then left as it was, and what is known stays beside it in PATH.part.
    """
    cases = tuple(cases)
    part = path.with_name(path.name + ".part")
    known = {constant.case: constant for constant in (read(part) if part.exists() else [])}
    failed = []
    for done, case in enumerate(cases):
        progress(done, len(cases))
        if case in known:
            continue
        try:
            known[case] = compute(case)
        except (ArithmeticError, RuntimeError, ValueError) as error:
            print(f"{case.command}: {error}", file=sys.stderr)
            failed.append(case)
            continue
        _write(part, [known[case] for case in cases if case in known])
    progress(len(cases), len(cases))
    if not failed:
        _write(path, [known[case] for case in cases])
        part.unlink(missing_ok=True)
    return failed


def _write(path: Path, constants: list[Constant]) -> None:
    """Whole or not at all."""
    lines = [_HEADER]
    for constant in constants:
        lines += ["[[constant]]"]
        lines += [
            f"{name} = {_toml(value)}"
            for name, value in (
                *asdict(constant.case).items(),
                ("value", constant.value),
                ("error", constant.error),
                ("how", constant.how),
                ("seconds", round(constant.seconds, 2)),
                ("command", constant.case.command),
            )
        ]
        lines += [""]
    new = path.with_name(path.name + ".new")
    new.write_text("\n".join(lines), encoding="utf-8")
    new.replace(path)


def _toml(value: str | float) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value!r}"


def main(argv: list[str] | None = None) -> int:
    """Recompute the table; 1 if a constant failed."""
    parser = argparse.ArgumentParser(prog="python -m attnlimits.papers.troiani2025.constants", description=__doc__)
    parser.add_argument("--out", type=Path, default=TABLE, help="table to write (default: the one in papers/)")
    path: Path = parser.parse_args(argv).out
    bar = Bar("constants", show=sys.stderr.isatty())
    try:
        failed = recompute(path, progress=bar.to)
    except KeyboardInterrupt:
        print(f"interrupted; what is known is in {path}.part, and the next run goes on from there", file=sys.stderr)
        return 130
    finally:
        bar.close()
    if failed:
        print(f"{len(failed)} of {len(CASES)} failed; the others are in {path}.part", file=sys.stderr)
        return 1
    print(f"{len(CASES)} constants in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
