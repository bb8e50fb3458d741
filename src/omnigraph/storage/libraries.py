"""Report the versions of the libraries that read and write a graph's files."""

import lance
import pyarrow as pa


def read_library_versions() -> dict[str, str]:
    """Return the versions of Lance and Arrow in this process, by name."""
    return {"Lance": str(lance.__version__), "Arrow": str(pa.__version__)}
