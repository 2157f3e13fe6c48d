"""The figures of the paper, each made by one module from numbers it computes or finds beside itself."""
