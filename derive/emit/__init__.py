"""From exact expressions to straight-line kernels: one intermediate form, three printers, one writer."""
