"""All kernel packages the generator writes."""

from __future__ import annotations

from . import kernels_linear_m2, kernels_softmax_m2
from .kernel import KernelPackage

__all__ = ["PACKAGES"]

PACKAGES: tuple[KernelPackage, ...] = (kernels_softmax_m2.PACKAGE, kernels_linear_m2.PACKAGE)
