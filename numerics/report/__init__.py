"""A page about one model: every number that is served of it, computed by the public functions, with formulas and plots.

Each part of the page is a file here; what is computed is kept in the folder of the report and taken up again as long as
its route has the same identity. `page/` turns the record into HTML. Nothing else in the numerics imports this folder.
"""
