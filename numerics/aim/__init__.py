"""Network-indexed models: attention of extensive width, S = W W^T/sqrt(r d) with r of the order of d."""
