"""Last-layer threshold of softmax layers with keys and queries over two tokens: sums over the law of the mixing matrix.

The law, its nodes and the rules may change here without asking elsewhere.
"""
