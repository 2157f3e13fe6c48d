"""Random generators, and the seeds that results state."""

import numpy as np

__all__ = ["seeded"]


def seeded(rng: np.random.Generator | int | None) -> tuple[int, np.random.Generator]:
    """Seed that a result states (-1 for a generator of the caller's), and the generator."""
    if isinstance(rng, np.random.Generator):
        return -1, rng
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else int(rng)
    return seed, np.random.default_rng(seed)
