"""Verbs of the command that need the symbolic side: models, derive, verify, explain.

`derive` and `explain` are where the command crosses from the numerics to the derivations; SymPy loads only there.
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import attnlimits as al

from ..core.cache import private_folder
from ..core.decimals import check_size
from ..core.destinations import output_folder
from ..core.progress import Bar
from ..core.results import as_dict
from ..model.kernels import available_kernels
from ..model.network import ACTIVATIONS
from ..model.routes import ROUTES
from ..model.served import served_table
from .block_flags import is_listed, listed
from .explained import threshold_line
from .flags import SYMBOLIC_DEFAULTS, link_flags, link_of, model_flags, refuse_label_noise, refuse_model_flags
from .link import derive as derive_link
from .verbs import Outcome, Verbs, add_verb, shown

__all__ = ["add", "derive", "explain", "models", "verify"]

#: What `verify --paper` takes in place of a citekey.
ALL_PAPERS = "all"


def add(verbs: Verbs) -> None:
    """Add the four verbs and their flags."""
    listing = add_verb(verbs, "models", models, "list the generated kernels", "attnlimits models --json")
    listing.add_argument("--routes", action="store_true", help="list the routes instead: what computes which numbers")
    listing.add_argument("--table", action="store_true", help="with --routes: which models they serve, in Markdown")
    derivation = add_verb(
        verbs,
        "derive",
        derive,
        "derive the expressions and write the kernels: all of them, or those of one model or link to the cache folder",
        "attnlimits derive --layers 2 --tokens 3 --untied",
    )
    model_flags(derivation, symbolic=True)
    link_flags(derivation, labels=False)
    derivation.add_argument("--check", action="store_true", help="compare with the kernels in place, write nothing")
    derivation.add_argument("--out", type=Path, help="write to this folder instead")
    # Without a flag of a model, all kernels are written.
    derivation.set_defaults(layers=None, tokens=None)
    page = add_verb(
        verbs,
        "explain",
        explain,
        "print the derived formulas of a model: indices, mixing, link, symmetries, channel, threshold",
        "attnlimits explain --layers 2 --tokens 2 --untied --latex",
    )
    model_flags(page, symbolic=True)
    link_flags(page)
    page.add_argument("--latex", action="store_true", help="a LaTeX document instead of plain text")
    page.add_argument("--no-number", action="store_true", help="leave out the threshold, which may take a while")
    checks = add_verb(
        verbs,
        "verify",
        verify,
        "run the check of every equation of a paper",
        "attnlimits verify --paper troiani2025",
    )
    checks.add_argument("--paper", default="troiani2025", help="citekey, or all (default: %(default)s)")
    checks.add_argument("--id", type=int, nargs="+", dest="ids", metavar="N", help="only these equations")


def _architecture(args: argparse.Namespace) -> "al.derivations.Architecture":
    """Return the symbolic model of the flags; decimals of --skip and --beta become exact rationals."""
    numbers = {}
    for name in ("skip", "beta"):
        text = getattr(args, name)
        if text is not None:
            check_size(f"--{name}", str(text))
            numbers[name] = al.derivations.exact(f"--{name}", text)
    return al.derivations.Architecture(
        layers=args.layers,
        tokens=args.tokens,
        ranks=args.rank,
        activation=al.derivations.read_activation(args.activation),
        tied=not args.untied,
        output=args.output,
        heads=args.heads,
        **numbers,
    )


def models(args: argparse.Namespace) -> Outcome:
    """List the generated kernels, or the routes from a model to its numbers."""
    if args.table and not args.routes:
        raise ValueError("--table is for --routes")
    if args.table:
        return {"table": served_table()}, served_table(), True
    if args.routes:
        found = [{"verb": r.verb, "name": r.name, "how": r.how, "note": r.note} for r in ROUTES]
        text = "\n".join(f"{r.verb}: {r.name} ({r.how}{', ' if r.note else ''}{r.note})" for r in ROUTES)
        return {"routes": found}, text, True
    kernels = available_kernels()
    text = "\n".join(f"{k['name']}: {k['title']}, {str(k['hash'])[:12]}" for k in kernels)
    return {"models": kernels, "activations": list(ACTIVATIONS)}, text, True


def derive(args: argparse.Namespace) -> Outcome:
    """Write all kernels, or those of one architecture or link into the cache folder."""
    if args.out is not None:
        output_folder(args.out)
    if is_listed(args):
        raise ValueError("modules of lists of blocks are derived when they are used; leave --blocks, --mask out")
    if args.link is not None:
        refuse_model_flags(args, SYMBOLIC_DEFAULTS)
        if args.check:
            raise ValueError("--check compares all generated kernels; it takes no link")
        return derive_link(args)
    if any(getattr(args, name) != usual for name, usual in SYMBOLIC_DEFAULTS.items()):
        return _derive_architecture(args)
    options = (["--check"] if args.check else []) + (["--out", str(args.out)] if args.out else [])
    try:
        # The generator reports on stdout; with --json only the object may stand there.
        with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
            status = al.derivations.derive_all(options)
    except al.derivations.ProofError as error:
        message = f"a derivation is not proved, nothing was written: {error}"
        return {"check": args.check, "ok": False, "status": message}, message, False
    word = "fresh" if args.check else "written"
    message = f"kernels {word}" if status == 0 else "kernels are stale: run `make derive` and commit the result"
    return {"check": args.check, "ok": status == 0, "status": message}, message, status == 0


def _derive_architecture(args: argparse.Namespace) -> Outcome:
    if args.check:
        raise ValueError("--check compares all generated kernels; it takes no model")
    args.layers = 2 if args.layers is None else args.layers
    args.tokens = 2 if args.tokens is None else args.tokens
    _check_cost(args)
    model = _architecture(args)
    folder = args.out if args.out is not None else private_folder("links")
    if folder is None:
        raise ValueError("there is no folder to write the package to; give one by --out")
    say = (lambda _: None) if args.quiet else lambda line: print(line, file=sys.stderr)
    path = al.derivations.write_link_package(model, folder, say)
    name = al.derivations.package_name(model)
    record = {"name": name, "folder": str(path), "ok": True, "status": "written"}
    return record, f"{name}: link and Jacobian written to {path}", True


# Entries of the Jacobian times layers: from here on they take a minute, and so many take hours. On one core a hundred
# entries of ten layers take three seconds, four hundred of three layers ten.
_SHORT, _LONG = 2400, 100_000


def _check_cost(args: argparse.Namespace) -> None:
    """Refuse a Jacobian that takes hours; say on stderr, before the work begins, that a large one takes long."""
    size = args.heads * args.tokens
    outputs = size * (size if args.output == "sequence" else args.tokens)
    variables = _indices(args) * args.tokens
    entries = outputs * variables
    about = f"the Jacobian has {entries} entries ({outputs} outputs, {variables} variables, L = {args.layers})"
    if entries * args.layers > _LONG:
        raise ValueError(
            f"{about}, which takes hours; give smaller --tokens, --layers, --rank or --heads, so that entries times "
            f"layers are at most {_LONG}"
        )
    if entries * args.layers > _SHORT and not args.quiet:
        print(f"attnlimits: {about}; this takes a minute or more, and Ctrl-C ends it", file=sys.stderr)


def _indices(args: argparse.Namespace) -> int:
    """Number P of the indices of the flags, none for flags that are no model."""
    ranks = sum(args.rank) if isinstance(args.rank, tuple) else args.rank * args.layers
    return max(0, ranks * args.heads * (2 if args.untied else 1))


def verify(args: argparse.Namespace) -> Outcome:
    """Run the check of every equation of a paper, or of all papers."""
    if args.paper != ALL_PAPERS:
        return _verify_paper(args, args.paper, args.ids)
    if args.ids is not None:
        raise ValueError(f"--id numbers the equations of one paper: give its citekey, not --paper {ALL_PAPERS}")
    outcomes = [_verify_paper(args, paper, None) for paper in al.derivations.registry.papers()]
    records = [record for record, _, _ in outcomes]
    failed = [str(record["paper"]) for record in records if not record["ok"]]
    status = f"checks failed: {', '.join(failed)}; see the tables" if failed else "all checks passed"
    text = "\n\n".join(f"{record['paper']}\n{table}" for record, table, _ in outcomes)
    return {"paper": ALL_PAPERS, "papers": records, "ok": not failed, "status": status}, text, not failed


def _verify_paper(args: argparse.Namespace, paper: str, ids: Sequence[int] | None) -> Outcome:
    registry = al.derivations.registry
    bar = Bar("equations", show=shown(args))
    results = registry.run(paper, ids, progress=lambda done, total, _: bar.to(done, total))
    bar.close()
    summary = registry.summary(results)
    record = {"paper": paper, **summary, "entries": as_dict(results)}
    failed = ", ".join(f"({number})" for number in summary["failed"])
    record["status"] = "all checks passed" if summary["ok"] else f"checks failed: {failed}; see the table"
    return record, registry.table(results), bool(summary["ok"])


def explain(args: argparse.Namespace) -> Outcome:
    """Print what the theory says about one architecture, or a link, and its threshold."""
    if args.link is not None:
        refuse_model_flags(args, SYMBOLIC_DEFAULTS | {"layers": 2, "tokens": 2})
        record = al.derivations.explain_link(link_of(args))
    elif args.noise != "0":
        raise ValueError("--noise belongs to --link here; the formulas of a network are those without noise")
    elif is_listed(args):
        refuse_label_noise(args)
        network = listed(args, SYMBOLIC_DEFAULTS | {"layers": 2, "tokens": 2})
        if network.chain is None:
            raise ValueError("this list is one of plain layers: explain it by the flags --layers, --tokens, ..")
        record = al.derivations.explain_blocks(network)
    else:
        refuse_label_noise(args)
        _check_page(args)
        record = al.derivations.explain_record(_architecture(args))
    page = str(record["latex"] if args.latex else record["text"])
    if args.no_number:
        return record, page, True
    number = threshold_line(args)
    record = record | {"number": number}
    return record, al.derivations.with_section(page, "Number", number.latex if args.latex else number.text), True


# Sizes of which each alone makes a page in about eight seconds of one core: tokens, heads of two layers and of one,
# layers, the largest rank. The time grows as their squares, and in the number of layers as itself; measured at
# M = 100, 200, 400; H = 5, 10, 20, 100; L = 30, 100, 400; r = 10, 20, 40.
_PAGE_TOKENS, _PAGE_HEADS, _PAGE_HEADS_ALONE, _PAGE_LAYERS, _PAGE_RANK = 400, 20, 120, 450, 80
# Pages that take more than half a minute are refused.
_MOST_PAGES = 3.0


def _check_page(args: argparse.Namespace) -> None:
    """Refuse a page that takes minutes, with the flag that makes it so long."""
    sizes = {name: getattr(args, name) for name in ("tokens", "heads", "layers")}
    sizes["rank"] = max(args.rank) if isinstance(args.rank, tuple) else args.rank
    # What is below one is refused by its own rule; what is beyond float64 need not be told apart.
    tokens, heads, layers, rank = (max(1, min(size, 10**9)) for size in sizes.values())
    cost = {
        "tokens": (tokens / _PAGE_TOKENS) ** 2,
        "heads": ((heads - 1) / _PAGE_HEADS) ** 2 * (layers - 1) + (heads / _PAGE_HEADS_ALONE) ** 2,
        "layers": layers / _PAGE_LAYERS,
        "rank": (rank / _PAGE_RANK) ** 2,
    }
    if sum(cost.values()) > _MOST_PAGES:
        flag = max(cost, key=lambda name: cost[name])
        raise ValueError(
            f"--{flag} {sizes[flag]} makes a page that takes some "
            f"{8 * sum(cost.values()):.2g} s to derive, and nobody reads it; the formulas of a few tokens, layers, "
            "heads and ranks are the same, so give a smaller one"
        )
