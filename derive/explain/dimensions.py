"""How many variables enter the output channel, and how many of them the output leaves free."""

from dataclasses import dataclass, replace

from ..architecture import Architecture
from ..fibres import fibre_dimension
from ..sequence_inversion import missing_dimensions


def one_head(model: Architecture) -> Architecture:
    """Return the network of one head of the model, its last attention matrix observed."""
    return replace(model, heads=1, output="last")


@dataclass(frozen=True)
class Counts:
    """Dimensions of a sequence output: equations on the earlier indices and on y itself, variables left free."""

    on_earlier: int
    on_output: int
    left: int


def sequence_counts(model: Architecture) -> Counts:
    """Count what y = B_L fixes, at generic indices.

    Layer l moves y by its attention matrix, d_l = (entries of h_l) - (dimension of the fibre) degrees of freedom.  The
    product of all has as many as fit into the matrices of its kind: row sums are known for softmax, and L linear
    layers differ from c^L I by a matrix of rank R = r_1 + .. + r_L at most, which has R (2 M - R) degrees of freedom.
    What is over stays free beside the fibres.
    """
    tokens, fibres, moves = model.tokens, [], []
    for rank in model.rank_vector:
        one = replace(one_head(model), layers=1, ranks=rank)
        fibres.append(fibre_dimension(one))
        moves.append((1 if model.tied else 2) * rank * tokens - fibres[-1])
    whole = moves[-1] + missing_dimensions(model)
    rank = min(tokens, sum(model.rank_vector))
    fitting = rank * (2 * tokens - rank) if model.activation == "linear" else whole
    outputs = min(sum(moves), fitting)
    return Counts(on_earlier=outputs - moves[-1], on_output=whole - outputs, left=sum(fibres) + sum(moves) - outputs)


def free_variables(model: Architecture) -> tuple[int, int]:
    """Return how many variables enter the channel, and how many of them the output leaves to integrate."""
    kinds = 1 if model.tied else 2
    if model.heads == 1:
        full = model.indices * model.tokens
        if model.output == "sequence":
            return full, sequence_counts(model).left
        last = kinds * model.rank_vector[-1] * model.tokens
        return full, full - last + fibre_dimension(model)
    one = one_head(model)
    unseen = kinds * model.rank_vector[0] * model.heads * (model.heads - 1) * model.tokens
    full = model.indices * model.tokens - unseen
    last = kinds * model.rank_vector[-1] * model.tokens
    return full, full - model.heads * (last - fibre_dimension(one))
