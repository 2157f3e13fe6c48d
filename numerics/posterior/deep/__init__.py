"""The fibre of an output of a deep attention network: its mixing matrices, the layer left out, and the peaks on it."""
