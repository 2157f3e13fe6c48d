"""The page of a report, from its record alone: HTML with MathML and SVG inside, nothing fetched, no script."""
