"""State-evolution averages of three and more layers of softmax attention with two tokens."""
