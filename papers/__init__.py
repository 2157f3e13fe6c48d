"""What the papers say, equation by equation, and the figures made again."""
