"""Attention-indexed models of extensive width: the spectrum, the matrix denoiser, the output channels."""
