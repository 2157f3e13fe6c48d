"""One rescaled layer: its attention matrices, and the blocks that it adds to the identity."""

from collections.abc import Callable, Sequence

import sympy as sp

from ..architecture import Architecture
from ..mixing import activate, added_blocks, score_matrices
from ..primitives import elementary

Reduce = Callable[[sp.Matrix], sp.Matrix]
Readouts = Sequence[sp.Matrix]
# Of numbers that are no rationals.
_DIGITS = 50


def keep(matrix: sp.Matrix) -> sp.Matrix:
    """Return the matrix as it is."""
    return matrix


def _evaluate(matrix: sp.Matrix) -> sp.Matrix:
    return matrix.applyfunc(lambda x: x if x.is_Rational else elementary(x).evalf(_DIGITS))


def reducer(reduce: Reduce | None, model: Architecture, *given: sp.Matrix) -> Reduce:
    """Return what is applied to every matrix: the caller's function, or one that fits what is given.

    Nested exponentials of numbers grow without end unless they are evaluated as they are made.
    """
    if reduce is not None:
        # What evaluates SymPy's functions need not know own nodes.
        return lambda matrix: reduce(elementary(matrix))
    numeric = model.beta.is_number and not any(matrix.free_symbols for matrix in given)
    return _evaluate if numeric and model.activation != "linear" else keep


def checked_inputs(
    model: Architecture, h: Sequence[sp.Matrix] | None, readouts: Readouts | None
) -> tuple[tuple[sp.Matrix, ...], tuple[sp.Matrix, ...]]:
    """Return the index matrices and the readouts, by default symbols, after a check of their shapes."""
    matrices = model.index_matrices() if h is None else tuple(h)
    mixers = model.readouts if readouts is None else tuple(readouts)
    shapes = [matrix.shape for matrix in model.index_matrices()]
    if [matrix.shape for matrix in matrices] != shapes:
        raise ValueError(f"h needs one matrix per layer of shapes {shapes}, (7), got {[m.shape for m in matrices]}")
    if [matrix.shape for matrix in mixers] != [matrix.shape for matrix in model.readouts]:
        raise ValueError(
            f"readouts need {len(model.readouts)} matrices, {model.heads} x {model.heads}, (29)-(30), "
            f"got {[matrix.shape for matrix in mixers]}"
        )
    return matrices, mixers


def projections(model: Architecture, layer: int, head: int, indices: sp.Matrix) -> tuple[sp.Matrix, sp.Matrix]:
    """Return the key and query indices of one head, each r x HM: block b is what the weights make of block b of x."""
    own = [block for block in model.index_blocks if block.layer == layer]
    start = own[0].start

    def row(role: str) -> sp.Matrix:
        parts = [b for b in own if b.head == head and b.role == role]
        return sp.Matrix.hstack(*[indices[b.start - start : b.start - start + b.rank, :] for b in parts])

    return (row("h"), row("h")) if model.tied else (row("k"), row("q"))


def attention_matrices(
    model: Architecture, layer: int, indices: sp.Matrix, mixing: sp.Matrix, reduce: Reduce
) -> list[sp.Matrix]:
    """Return the attention matrix of every head at given mixing of the tokens."""
    return [reduce(activate(model, reduce(score))) for score in score_matrices(model, layer, mixing, indices)]


def mix_heads(
    model: Architecture, layer: int, readouts: Sequence[sp.Matrix], attention: Sequence[sp.Matrix]
) -> sp.Matrix:
    """Return the HM x HM matrix of blocks o_ab S^b that the layer adds to the identity, times 1/c."""
    return added_blocks(model, attention, readouts[layer - 1] if model.heads > 1 else None)


def mixing_layers(model: Architecture) -> int:
    """Return how many layers mix the tokens before the output is taken."""
    return model.layers if model.output == "sequence" else model.layers - 1
