"""Posterior of a user's own link: its monotone pieces and level sets, integrals over them, and the moments of h."""
