"""Fixtures of the bundle's tests."""

from tests.bundle.made_up_engine import host_python, workshop

__all__ = ["host_python", "workshop"]
