"""Makes the checkpoints that recipes serve, and checks them."""

from typing import Final

__version__: Final = "1"
"""Of the method. It is part of what decides a checkpoint's bytes: raise it whenever they would change."""
