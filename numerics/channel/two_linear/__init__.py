"""Averages of two layers of linear attention over two tokens, by quadrature."""
