"""Averages over the outputs of a user's own link: by quadrature for one combination of h, else by scores of samples."""
