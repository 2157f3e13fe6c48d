"""The user's own link: what it is, what is provable about it, and the kernel that the numerics load."""

from collections.abc import Sequence

import sympy as sp

from . import closed
from .exact import flips
from .form import Branches, Link, Part, coordinates_of
from .functions import ArgMax, SoftmaxEntry
from .parser import LinkError, index_symbol
from .parts import components, part_of
from .reading import check_real, noise_of, outputs_of, shape_of, varies
from .separate import differences, separated

__all__ = ["Branches", "Link", "LinkError", "Part", "link", "rotated"]


def link(
    expr: str | sp.Expr | Sequence[object],
    tokens: int | None = None,
    indices: int | None = None,
    noise: object = 0,
    *,
    reduced: bool = True,
) -> Link:
    """Derive what the numerics need of a link of one's own.

    Parameters
    ----------
    expr : str, sympy.Expr or a sequence of outputs
        The link in h[p, m], index p and token m counted from 1: a text (see `link_parser.parse`), or SymPy
        expressions in ``IndexedBase("h")`` or in symbols named ``h_<p>`` or ``h_<p>_<m>``.
    tokens, indices : int, optional
        M and P; by default the largest that occur. M = 1 is a multi-index model. P M <= 8.
    noise : number, optional
        Variance Delta >= 0 of Gaussian noise on every output.
    reduced : bool, optional
        Without noise, leave out outer strictly monotone functions and repeated outputs, which tell nothing more about
        h, and write an output that gives several as these (`separated`). False keeps every output as it is with noise.

    Raises
    ------
    LinkError
        Naming the part that cannot be read, is not real, or cannot be solved.

    Notes
    -----
    What the numerics make of a link without noise: a closed form where one is derived here (finitely many values on
    boxes along orthogonal directions; h h^T, the square along one direction or |h| fixed by y; two polynomials of two
    entries that fix h up to orthogonal maps; a vanishing threshold by a moment, by monotonicity, or by interval
    bounds of E[h_i f(y)] over at most 3 entries); otherwise a quadrature, for each group of outputs that share
    entries of h, where at
    most one output varies at a time, at most 3 entries are coupled (beside known entries 1), and one of them has a
    closed inverse or is the only one. With noise the quadrature takes at most 2 outputs and 3 entries in a group, and
    a deviation that it can resolve. All else is sampled, to 2 or 3 digits, if a group has at most 3 outputs and known
    entries.

    Limits: P M <= 8; at most 512 regions; noise is Gaussian, of the same variance on all outputs, and independent;
    an operator that vanishes to rounding gives a lower bound unless a closed form proves that it vanishes; sines
    are inverted for |h| <= 10; a power of a sum with more than 2000 terms is not multiplied out, so
    that symmetries that show only then are not used; a sampled E[h | y] that is zero to its error counts as zero.

    References
    ----------
    troiani2025, (1), (9).

    Examples
    --------
    >>> link("sign(h[1]*h[2])").exact
    pi**2/4
    """
    outputs = outputs_of(expr)
    indices, tokens = shape_of(outputs, indices, tokens)
    delta = noise_of(noise)
    coordinates = coordinates_of(indices, tokens)
    reduced = reduced and delta == 0
    outputs = differences(outputs) if reduced else outputs
    outputs = tuple(output.replace(SoftmaxEntry, lambda *args: SoftmaxEntry(*args).elementary) for output in outputs)
    check_real(outputs, coordinates)
    if reduced:
        outputs = tuple(part for output in outputs for part in separated(output))
    # Constants say nothing, and neither does an output said twice, unless each has noise of its own.
    telling = tuple(o for o in outputs if varies(o))
    if not telling:
        raise LinkError(
            f"link: {'; '.join(map(str, outputs))} takes the same value for every h: there is nothing to learn from it"
        )
    outputs = tuple(dict.fromkeys(telling)) if reduced else telling
    parts = tuple(part_of(numbers, outputs, delta) for numbers in components(outputs))
    constant = [not o.free_symbols for part in parts for region in part.regions for o in region.outputs]
    exact, reason, direction = closed.threshold(parts, outputs, coordinates, indices, delta)
    steps = closed.steps(parts, coordinates, indices) if delta == 0 else {}
    return Link(
        outputs=outputs,
        indices=indices,
        tokens=tokens,
        noise=delta,
        parts=parts,
        kind="discrete" if all(constant) else "mixed" if any(constant) else "real",
        flips=flips(outputs, coordinates),
        exact=exact,
        reason=reason,
        steps={learned: alpha for learned, (alpha, _) in steps.items()},
        directions={(): direction} | {learned: matrix for learned, (_, matrix) in steps.items()},
        table=closed.table_entry(outputs, coordinates, indices) if delta == 0 else "",
    )


def rotated(made: Link, vectors: Sequence[Sequence[int]]) -> Link:
    """Derive a link in other orthonormal axes: its new index k is along the k-th vector.

    Parameters
    ----------
    made : Link
    vectors : sequence of P sequences of P integers
        Orthogonal; their lengths do not matter.

    Raises
    ------
    LinkError
        The vectors are not orthogonal; and as `link`.

    Examples
    --------
    >>> rotated(link("sign(h[1]**2 - h[2]**2)"), [(1, 1), (1, -1)]).exact
    pi**2/4
    """
    axes = sp.Matrix(vectors)
    squares = axes * axes.T
    if axes.shape != (made.indices,) * 2 or not squares.is_diagonal() or any(d == 0 for d in squares.diagonal()):
        raise LinkError(f"vectors must be {made.indices} orthogonal ones of that length, got {vectors}")
    unit = sp.diag(*[1 / sp.sqrt(d) for d in squares.diagonal()]) * axes
    images = {
        index_symbol(p + 1, m + 1): sum(unit[k, p] * index_symbol(k + 1, m + 1) for k in range(made.indices))
        for p in range(made.indices)
        for m in range(made.tokens)
    }
    # The largest does not change with what is added to all.
    outputs = [
        output.xreplace(images).replace(ArgMax, lambda *args: ArgMax(*(sp.expand(arg - args[0]) for arg in args)))
        for output in made.outputs
    ]
    return link(outputs, made.tokens, made.indices, made.noise)
