"""Provably learning a multi-head attention layer: what is known of it, checked, and what was observed."""
