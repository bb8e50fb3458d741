"""Define the version of the stored format, without importing anything that opens a graph."""

from typing import Final

# The version of the stored format that this release reads and writes.
INTERNAL_SCHEMA_VERSION: Final = 4
