"""Posteriors of the indices given data: quantities of each output alone are computed once, for every kind of model."""
