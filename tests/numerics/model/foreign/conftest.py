"""Attention as other libraries define it, written out on arrays."""

import numpy as np
import pytest


def _softmax(scores):
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _probabilities(X, queries, keys, scale=None):
    """Of every head, (.., H, M, M), from tokens in rows and projections of shape (H, d, D)."""
    scale = 1 / np.sqrt(queries.shape[1]) if scale is None else scale
    q, k = (np.einsum("...md,hrd->...hmr", X, w) for w in (queries, keys))
    return _softmax(scale * np.einsum("...hir,...hjr->...hij", q, k))


@pytest.fixture
def probabilities():
    return _probabilities


@pytest.fixture
def softmax():
    return _softmax
