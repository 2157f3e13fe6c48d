"""What every other room uses: results with their errors, validation, files, caches, progress and interrupts.

Nothing here knows of a model or imports another room. A change of a result class or of a check is seen by every verb;
a change of how files are written or kernels are cached is seen by none.
"""
