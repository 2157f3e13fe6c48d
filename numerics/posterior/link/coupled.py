"""Outputs of a link that are one posterior, because they or the prior couple their entries of h."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...channel.link.entries import covariance
from ...core.errors import UnreachableOutputError
from ...core.typing import Array
from ...model.links import LinkKernel, Part
from .moments import Group

__all__ = ["Coupled", "coupled_parts"]


def coupled_parts(kernel: LinkKernel, linked: NDArray[np.bool_]) -> list[list[Part]]:
    """Parts of a link, those together of which two indices meet in a token that are linked, shape (P, P)."""
    p = kernel.indices

    def meet(one: Part, other: Part) -> bool:
        return any(a // p == b // p and linked[a % p, b % p] for a in one.entries for b in other.entries)

    groups: list[list[Part]] = []
    for part in kernel.parts:
        near = [group for group in groups if any(meet(one, part) for one in group)]
        groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), part])
    return groups


class Coupled:
    """Outputs that depend on the same entries, or on entries that the prior couples.

    Attributes
    ----------
    group : Group
    numbers : list of int
        Of the outputs.
    token, place : ndarray of int, shape (k,)
        Of the entries: their tokens and indices.
    """

    def __init__(self, group: Group, parts: Sequence[Part]) -> None:
        self.group = group
        self.numbers = [number for part in parts for number in part.outputs]
        self.token, self.place = np.divmod(np.array(group.entries), group.kernel.indices)

    def covariance(self, V: Array) -> Array:
        """Covariance of the entries, where V is that of the indices of a token."""
        return covariance(self.group.entries, V)

    def kinds(self, y: Array, name: str, first: int = 0) -> NDArray[np.int64]:
        """Kind of each output, shape (n, K) with all of a sample's, the first of which has this number.

        Two discrete values that agree to 1e-6 are one, and a value that has a probability is not one of a density.

        Raises
        ------
        UnreachableOutputError
            One that is no output of the link.
        """
        own, found = y[:, self.numbers], np.full(len(y), 0 if self.group.sigma > 0 else -1)
        labels = [self.group.cells[members[0]].label for members in self.group.kinds]
        # Relative difference at which a discrete output has one of its values.
        same = 1e-6
        for kind in sorted(range(len(labels)), key=lambda kind: sum(value is None for value in labels[kind])):
            fits = found < 0
            for column, value in enumerate(labels[kind]):
                if value is not None:
                    fits &= np.isclose(own[:, column], value, rtol=same, atol=same)
            found[fits] = kind
        if (found < 0).any():
            row = int((found < 0).argmax())
            known = sorted({value for label in labels for value in label if value is not None})
            raise UnreachableOutputError(
                f"{name}, sample {first + row}: {y[row].tolist()} is no output of this link, whose discrete ones are "
                f"{known} (troiani2025 (1)); check the link and its noise"
            )
        return found
