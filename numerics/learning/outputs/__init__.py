"""Output channels of data: posterior scores of each sample's indices given its output, for every kind of model."""
