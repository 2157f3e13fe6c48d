"""Networks of one block that are as informative as a simpler model: masks and correlated tokens of one layer.

One layer without noise fixes the readout v = h C^{1/2} up to what acts on its rows and, for softmax, a shift of all
tokens alike. Both act on h as they do on v, the shift along C^{-1/2} 1 in place of 1, and a rotation of the tokens
turns one direction into the other: fixed points, thresholds and free entropies are those of independent tokens.

A mask that shows v up to its sign leaves nothing more to show. One that shows a single number of up to three entries is
a link of these: of softmax v_i (v_j - v_i).
"""

from collections.abc import Sequence

from .blocks import Attention
from .blocks.correlation import Correlation
from .blocks.masks import as_mask
from .link import Link
from .network import Network

__all__ = ["reduced"]

_Rows = Sequence[Sequence[int]]
# Entries of h of a link that panels serve.
_MOST = 3


def reduced(model: Network | Link) -> tuple[Network | Link, str]:
    """The simplest model with the same state evolution, and why it is; the model itself, and nothing, if there is none.

    Examples
    --------
    >>> causal = Network(1, 2, mask="causal")
    >>> reduced(causal)[0].text
    'h[1,2]*(h[1,1] - h[1,2])'
    >>> reduced(Network(1, 3, mask="causal"))[0].describe()
    'tied softmax attention, L=1, M=3, rank 1, c=1, beta=1'
    """
    chain = None if isinstance(model, Link) else model.chain
    if chain is None or isinstance(model, Link) or model.noise:
        return model, ""
    last = chain.blocks[-1]
    if len(chain.groups) > 1 or type(last) is not Attention:
        return model, ""
    before = chain.blocks[:-1]
    if before and not (len(before) == 1 and isinstance(before[0], Correlation)):
        return model, ""
    mask = as_mask(last.mask, chain.tokens)
    plain = Network(1, chain.tokens, last.rank, activation=last.activation, tied=last.tied, beta=last.beta)
    if mask is None:
        return plain, "one layer is as informative for any covariance of its tokens"
    one = last.tied and last.rank == 1 and last.activation in ("softmax", "linear")
    if not one or not all(mask[i][i] for i in range(chain.tokens)):
        return model, ""
    seen = [[j for j in range(chain.tokens) if mask[i][j] and j != i] for i in range(chain.tokens)]
    if last.activation == "softmax" and _determined(seen):
        return plain, "the mask shows the indices up to their sign, as no mask does"
    if before or chain.tokens > _MOST:
        return model, ""
    shown = _shown(seen, str(last.activation))
    return (Link(shown[0]), "by the link of what its rows show") if len(shown) == 1 else (model, "")


def _determined(seen: _Rows) -> bool:
    """Whether the rows of a softmax fix v up to one sign: all tokens follow from a triangle, one after the other."""
    tokens = range(len(seen))
    for i in tokens:
        if not any(k in seen[j] for j in seen[i] for k in (i, *seen[i])):
            continue
        found = {i, *seen[i]}
        grown = True
        while grown:
            new = {b for a in found for b in seen[a]} | {a for a in tokens if len(found & set(seen[a])) > 1}
            grown = not new <= found
            found |= new
        if len(found) == len(seen):
            return True
    return False


def _shown(seen: _Rows, activation: str) -> list[str]:
    """The differences of scores that the rows of a softmax show, as links; the scores if linear."""

    def v(token: int) -> str:
        return f"h[1,{token + 1}]"

    if activation == "linear":
        return [f"{v(i)}*{v(j)}" for i, row in enumerate(seen) for j in (i, *row)]
    return [f"{v(i)}*({v(j)} - {v(i)})" for i, row in enumerate(seen) for j in row]
