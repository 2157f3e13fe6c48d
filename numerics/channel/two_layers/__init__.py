"""Channel averages of two layers of softmax attention over two tokens, by deterministic quadrature."""
