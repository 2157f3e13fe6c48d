"""The verb `multihead figure`: the steps of sculpting on one instance, or a stored study."""

import argparse
from importlib import import_module
from pathlib import Path

import attnlimits as al

from ...core.destinations import output_folder
from ...core.pictures import plots
from ...core.results import as_dict, load, save, versions
from ..verbs import Outcome, Verbs, add_verb
from .teacher import instance_of, judged, teacher_flags

__all__ = ["add", "run"]


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "figure",
        run,
        "draw the steps of sculpting on one instance, or a stored study",
        "attnlimits multihead figure steps --heads 2 --dim 8 --samples 3000 --out results",
        nested=True,
    )
    parser.needs(parser.add_argument("name", choices=("steps", "hardness", "scaling")))
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder (default: %(default)s)")
    teacher_flags(parser)


def run(args: argparse.Namespace) -> Outcome:
    """Draw the picture and write its data."""
    output_folder(args.out).mkdir(parents=True, exist_ok=True)
    stem = f"multihead-{args.name}"
    picture, data = args.out / f"{stem}.png", args.out / f"{stem}.json"
    if args.name == "steps":
        record, line, fine = _steps(args, picture)
    else:
        record, line, fine = _stored(args.name, picture)
    save(data, record)
    record |= {"verb": f"multihead figure {args.name}", "files": [str(picture), str(data)], "versions": versions()}
    return record, f"{line}\nwrote {picture}\nwrote {data}", fine


def _stored(name: str, picture: Path) -> Outcome:
    figure = import_module(f"attnlimits.papers.chen2024.figures.{name}").FIGURE
    record, look = load(figure.data), import_module("attnlimits.papers.figures").Look()
    figure.render(record, look, picture)
    made = figure.headline(record)
    found = {"value": made.value, "error": made.error, "how": record["how"], "converged": made.converged}
    return record | made.more | found, f"drawn from {figure.data.name}", True


def _steps(args: argparse.Namespace, picture: Path) -> Outcome:
    if args.heads < 2:
        raise ValueError(f"--heads must be >= 2, for one head has no hull to draw, got {args.heads}")
    theta, w, made = instance_of(args)
    found = al.multihead.sculpt(made.X, made.Y, args.heads, noise_std=made.noise_std, strict=False, rng=args.seed)
    with plots().drawn(picture, 3, (9.0, 3.0)) as axes:
        al.multihead.residual_histogram(axes[0], found)
        al.multihead.hull_singular_values(axes[1], found)
        al.multihead.hull_net(axes[2], found, theta)
    record = judged(args, found, theta, w) | {
        "method": "sculpt",
        "validation_error": found.validation_error,
        "converged": found.converged,
        "status": found.status,
        "certified_rows": found.certified,
        "spectral_gap": as_dict(found.hull.gap),
        "least_level": as_dict(found.least_level),
        "singular_values": as_dict(found.hull.singular_values),
        "attempts": as_dict(found.attempts),
    }
    return record, found.status, found.converged
