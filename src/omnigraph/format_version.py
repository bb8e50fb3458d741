"""The version of what is stored: asked by doors that should not have to open anything to know it."""

from typing import Final

INTERNAL_SCHEMA_VERSION: Final = 4
"""The version of the stored format that this software writes and reads."""
