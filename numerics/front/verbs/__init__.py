"""The public functions that take a network or a link, one a file, so that each loads what it needs and no more.

Each chooses the function of the numerics that serves its model; `attnlimits` hands them out by their names.
"""
