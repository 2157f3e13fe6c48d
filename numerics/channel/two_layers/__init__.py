"""Channel averages of two layers over two tokens: softmax by quadrature, and what linear attention has in common."""
