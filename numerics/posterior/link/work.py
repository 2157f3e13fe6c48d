"""How much work a quadrature over a link may take, counted in evaluations and not in seconds.

A clock would let the load of the machine decide which rule serves a link; the count of points does not depend on it.
"""

import math
import re

from ...core.errors import NotServedError

__all__ = ["Work"]

# Points at which a product of entries is solved for one of them: about fifteen seconds of one core.
_MOST = 3e8
# Powers, functions and comparisons cost about so many products: 49 ns a point for h[1]*h[2]*h[3], 680 ns for a link of
# three powers, solved and put back in. A square is a product: 74 ns for h[1]*h[2] + h[3]**2.
_COSTLY = re.compile(r"\*\*(?!2\b)|[a-zA-Z]\w*\(|[<>]")


class Work:
    """What is left of the work of one average.

    Parameters
    ----------
    text : sequence of str
        The outputs of the link, of which every point takes an evaluation.
    bounded : bool, optional
        Samples are as many as were asked for.
    """

    def __init__(self, text: tuple[str, ...] = (), *, bounded: bool = True) -> None:
        dearer = 4
        self._each = 1 + dearer * sum(len(_COSTLY.findall(output)) for output in text)
        self._left = _MOST if bounded else math.inf

    def spend(self, points: int) -> None:
        """Count this many evaluations.

        Raises
        ------
        NotServedError
            None are left.
        """
        self._left -= points * self._each
        if self._left < 0:
            raise NotServedError("a quadrature of this link takes more than a minute")
