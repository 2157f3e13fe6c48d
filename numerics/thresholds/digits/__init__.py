"""Last-layer thresholds in ball arithmetic, to fifty digits."""
