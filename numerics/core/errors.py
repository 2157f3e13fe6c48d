"""Exceptions of the numerics; each message names the argument, what was expected, the equation and a remedy."""

__all__ = ["ClusterError", "ConvergenceError", "KernelNotFoundError", "NotServedError", "UnreachableOutputError"]


class KernelNotFoundError(ValueError):
    """No generated kernel or method serves this model; the message lists what exists."""


class NotServedError(ValueError):
    """A link that a quadrature does not serve; the message says why."""


class UnreachableOutputError(ValueError):
    """An output y lies outside the range of the link, so its likelihood is zero."""


class ClusterError(RuntimeError):
    """The cluster cannot be reached, cannot run its tasks, or was lost before the end."""


class ConvergenceError(RuntimeError):
    """A computation stopped before it reached the accuracy asked for."""
