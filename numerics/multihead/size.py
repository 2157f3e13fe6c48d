"""Memory that learning a multi-head layer takes, estimated before anything is allocated."""

from ..core.memory import refuse_memory

__all__ = ["refuse_size"]

# Entries of products of rows that `refine` holds at a time.
_BLOCK = 1 << 22


def refuse_size(what: str, samples: int, tokens: int, dim: int, heads: int, *, normal: bool = False) -> None:
    """Raise MemoryError if a layer of so many heads cannot be learned from so many examples in memory.

    Parameters
    ----------
    what : str
        The arguments that determine the size, for the message.
    samples, tokens, dim, heads : int
        n, k, d and m.
    normal : bool, keyword-only
        The normal equations of Levenberg-Marquardt are formed, from these samples.
    """
    n, k, d, m = (float(value) for value in (samples, tokens, dim, heads))
    # Copies of the examples, split and transposed; of the attention and of the mixed tokens of every head.
    copies, attentions, mixed = 8, 4, 5
    # Arrays of all parameters that L-BFGS keeps: 20 pairs of steps, and a few more.
    vectors = 50
    size = 8 * n * k * (copies * d + m * (attentions * k + mixed * d)) + 8 * vectors * m * d**2
    if normal:
        # Spreads of every row with the factors they are made of, their products for a block; the equations themselves.
        size += 16 * n * k * m * d**2 + 8 * min(n * k * (m * d) ** 2, _BLOCK) + 24 * m**2 * d**4
    refuse_memory(what, size, "take fewer samples, heads or tokens, or a smaller dimension")
