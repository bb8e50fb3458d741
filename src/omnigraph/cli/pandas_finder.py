"""Keep pandas out of the process of a command.

Where pandas is installed, importing Lance makes pyarrow import it, so that pyarrow recognizes values of pandas. No
command has such values, except those that run Spark, and the import was a quarter of the CPU time of `omnigraph query`.
In the process of a caller of the library, pandas is imported as always (decision 67).
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class PandasFinder:
    """A module finder that reports pandas as missing until PySpark, which needs it, is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None, which lets the other finders look for a module.

        Raises:
            ModuleNotFoundError: The module is pandas, and PySpark is not imported.
        """
        del path, target
        if name == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("No module named 'pandas'", name=name)
        return None


def hide_pandas() -> None:
    """Make this process, which runs one command, do without pandas; do nothing if it is imported already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, PandasFinder())
