"""The verb `trec`: a small attention classifier of questions, and when each of its layers is learned."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import attnlimits as al

from ..core.decimals import pm, recorded
from ..core.destinations import output_file, output_folder
from ..core.progress import Bar
from ..core.results import as_dict, save
from .verbs import Outcome, Record, Verbs, add_verb, shown

__all__ = ["add", "run"]

_MADE = {"train": 1200, "test": 300, "dimension": 64}


def add(verbs: Verbs) -> None:
    """Add the verb and its flags."""
    parser = add_verb(
        verbs,
        "trec",
        run,
        "train a small attention classifier of questions, and see when each layer is learned",
        "attnlimits trec --train train.txt --test test.txt --embeddings bert --json",
    )
    group = parser.add_argument_group("questions of your own")
    group.add_argument("--train", type=Path, metavar="FILE", help="a line LABEL<TAB>text, or LABEL:fine text, for each")
    group.add_argument("--test", type=Path, metavar="FILE", help="the same, to measure the accuracy on")
    group.add_argument(
        "--embeddings",
        type=Path,
        metavar="DIR",
        help="folder with train and test of shape (N, T, d), or with table and vocab.txt (.npy or .safetensors)",
    )
    group.add_argument("--length", type=int, metavar="T", help="tokens per question (default: of the longest one)")
    group = parser.add_argument_group("a corpus made from templates, instead")
    group.add_argument("--made", action="store_true", help="train on it")
    group.add_argument("--write-corpus", type=Path, metavar="DIR", help="write its files there, and train nothing")
    group.add_argument("--questions", type=int, metavar="N", help=f"to train on (default: {_MADE['train']})")
    group = parser.add_argument_group("architecture and training")
    group.add_argument("--rank", "-r", type=int, default=16, help="rows of each layer's weights (default: %(default)s)")
    group.add_argument("--skip", "-c", type=float, default=1.0, help="skip strength c (default: %(default)s)")
    group.add_argument("--epochs", type=int, default=50, help="(default: %(default)s)")
    group.add_argument("--rate", type=float, default=1e-3, help="learning rate of AdamW (default: %(default)s)")
    group.add_argument("--batch", type=int, default=32, help="questions per step (default: %(default)s)")
    group.add_argument("--weight-decay", type=float, default=1e-2, help="of AdamW (default: %(default)s)")
    group.add_argument(
        "--spread", type=float, default=0.02, help="standard deviation of the first weights (default: %(default)s)"
    )
    group.add_argument("--raw", action="store_true", help="embeddings as they are, not of mean 0 and variance 1")
    group.add_argument("--seeds", type=int, default=1, metavar="K", help="number of trainings (default: %(default)s)")
    group.add_argument("--seed", type=int, default=0, help="first seed (default: %(default)s)")
    group.add_argument("--out", type=Path, metavar="FILE", help="write the histories of all trainings there, .json")


def run(args: argparse.Namespace) -> Outcome:
    """Train, or write the made corpus."""
    _check(args)
    if args.write_corpus is not None:
        return _write(args)
    settings = al.classifier.Settings(
        rank=args.rank,
        skip=args.skip,
        epochs=args.epochs,
        rate=args.rate,
        batch=args.batch,
        weight_decay=args.weight_decay,
        spread=args.spread,
        standardise=not args.raw,
    )
    return _train(args, settings)


def _check(args: argparse.Namespace) -> None:
    """Refuse bad combinations before anything is read."""
    own = {name: getattr(args, name) for name in ("train", "test", "embeddings")}
    made = args.made or args.write_corpus is not None
    if made:
        for name in (*own, "length"):
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} is for questions of your own, and the made corpus stands instead of them")
        if args.made and args.write_corpus is not None:
            raise ValueError("--made trains on the made corpus and --write-corpus writes it; give one of them")
    else:
        missing = [f"--{name}" for name, value in own.items() if value is None]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} missing: give --train, --test and --embeddings, or --made for a corpus of ours"
            )
        if args.questions is not None:
            raise ValueError("--questions is for the made corpus, --made or --write-corpus")
    if args.seeds < 1:
        raise ValueError(f"--seeds must be >= 1, got {args.seeds}")
    if args.seed < 0:
        raise ValueError(f"--seed must be >= 0, got {args.seed}")
    if args.out is not None and args.write_corpus is not None:
        raise ValueError("--out is for the histories of trainings, and --write-corpus trains nothing")
    args.out = output_file(args.out, ".json", make=True)
    if args.write_corpus is not None:
        output_folder(args.write_corpus, "--write-corpus")


def _made(args: argparse.Namespace) -> "al.classifier.Corpus":
    sizes = _MADE if args.questions is None else _MADE | {"train": args.questions}
    return al.classifier.made_corpus(**sizes, rng=args.seed)


def _write(args: argparse.Namespace) -> Outcome:
    corpus = al.classifier.made_corpus(
        **_MADE | ({} if args.questions is None else {"train": args.questions}), rng=args.seed
    )
    files = [str(path) for path in al.classifier.write_corpus(args.write_corpus, corpus)]
    status = f"wrote {len(corpus.train)} + {len(corpus.test)} questions to {args.write_corpus}"
    return {"files": files, "status": status, "converged": True}, status, True


Part: TypeAlias = "tuple[al.classifier.Embedded, NDArray[np.int64]]"


def _data(args: argparse.Namespace) -> tuple[Part, Part, tuple[str, ...], str]:
    if args.made:
        corpus = al.classifier.made_corpus(
            **_MADE | ({} if args.questions is None else {"train": args.questions}), rng=args.seed
        )
        questions, others, name = list(corpus.train), list(corpus.test), "made corpus"
        embedded = corpus.embedded()
    else:
        questions, others, name = (
            al.classifier.read_questions(args.train),
            al.classifier.read_questions(args.test),
            str(args.train),
        )
        embedded = al.classifier.embed_folder(args.embeddings, questions, others, args.length)
    labels, first, second = al.classifier.label_numbers(questions, others)
    return (embedded[0], first), (embedded[1], second), labels, name


def _train(args: argparse.Namespace, settings: "al.classifier.Settings") -> Outcome:
    first, second, labels, name = _data(args)
    bar = Bar("trec", show=shown(args))
    found = al.classifier.repeated(first, second, settings, count=args.seeds, seed=args.seed, progress=bar.to)
    bar.close()
    one = found.trainings[0]
    record = {
        "value": recorded(found.accuracy.value, found.accuracy.error),
        "error": as_dict(found.accuracy.error),
        "how": found.accuracy.how,
        "quantity": "share of right answers on the test questions",
        "labels": labels,
        "train_accuracy": found.train_accuracy,
        "half_time": found.half_time,
        "similarity": [r.similarity for r in found.trainings],
        "settings": asdict(settings),
        "train": one.train,
        "test": one.test,
        "tokens": one.tokens,
        "dimension": one.dimension,
        "seed": args.seed,
        "seeds": args.seeds,
        "converged": found.converged,
        "status": found.status,
        "versions": one.versions,
    }
    lines = [
        f"{name}: {one.train} + {one.test} questions, {len(labels)} labels, T = {one.tokens}, d = {one.dimension}",
        f"two layers of tied attention, rank {settings.rank}, c = {settings.skip:g}, AdamW at {settings.rate:g}",
        f"right answers: {pm(found.accuracy.value, found.accuracy.error)}",
        *(f"layer {k + 1} half-way to its last value after {t:.1f} epochs" for k, t in enumerate(found.half_time)),
        found.status,
    ]
    if args.out is not None:
        save(args.out, {"labels": list(labels), "trainings": [_history(r) for r in found.trainings]})
        record["out"] = str(args.out)
        lines.append(f"wrote {args.out}")
    return record, "\n".join(lines), found.converged


def _history(result: "al.classifier.Training") -> Record:
    """A training without its weights."""
    return {key: value for key, value in as_dict(result).items() if key != "weights"}
