"""Bayes optimal learning of attention-indexed models: what it says, checked."""
