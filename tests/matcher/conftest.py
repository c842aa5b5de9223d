"""Kernels that run as plain Python get narrow levels."""

from tests.reference.interpreted import _narrow_levels

__all__ = ["_narrow_levels"]
