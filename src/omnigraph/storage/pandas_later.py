"""Keep pandas out of processes that don't use it.

Where pandas is installed, pyarrow imports it to build its first array, so that it recognizes values of pandas;
importing lance is enough for that. It takes longer than importing this engine. No such values exist before pandas is
imported, so until then pyarrow can do without it, with the same results:

- Its Python side checks once whether pandas is installed. It finds none, and checks again when pandas was imported.
- Its C++ side looks for pandas when it first converts Python objects, and never again. So it must not look early: reads
  here convert none, and the one constant that `pyarrow.dataset` creates is passed to it ready-made.
"""

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa
import pyarrow.lib


class _PandasFinder:
    """A module finder that finds pandas through the other finders, and notifies pyarrow once it is imported."""

    def __init__(self) -> None:
        # The id of the thread from which pandas is hidden at the moment.
        self.hidden_from: int | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of pandas, as the import system expects of a finder; None for other modules."""
        if name != "pandas":
            return None
        if self.hidden_from == threading.get_ident():
            raise ModuleNotFoundError(name=name)
        finders = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in finders)), None)
        if spec is not None and spec.loader is not None:
            self._notify_after_import(spec)
        return spec

    def _notify_after_import(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        assert loader is not None  # noqa: S101 - the caller has checked it
        execute = loader.exec_module

        def execute_and_notify(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            # This pandas may be too old for pyarrow, which reports that when it is used with it.
            with suppress(ImportError):
                _ = pyarrow.lib._pandas_api.pd  # noqa: SLF001 - looks for pandas again, and nothing public does

        loader.exec_module = execute_and_notify  # type: ignore[method-assign] # this one loader, of this one module


def import_pandas_later() -> None:
    """Make pyarrow do without pandas until the process imports it; do nothing if it is imported already."""
    if "pandas" in sys.modules or not hasattr(pyarrow.lib, "_pandas_api"):
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    finder.hidden_from = threading.get_ident()
    try:
        _ = pyarrow.lib._pandas_api.have_pandas  # noqa: SLF001 - it remembers what it finds now
    finally:
        finder.hidden_from = None
    _import_dataset()


def _import_dataset() -> None:
    """Import `pyarrow.dataset` without letting it convert `True` from a Python object."""
    # From a buffer, because `pa.scalar` is the conversion that must not happen.
    true = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\1")])[0]
    convert = pyarrow.lib.scalar

    def scalar(value: object, *args: object, **options: object) -> object:
        return true if value is True and not args and not options else convert(value, *args, **options)

    pyarrow.lib.scalar = scalar
    try:
        from pyarrow import dataset  # noqa: F401, PLC0415 - for the effect of importing it
    finally:
        pyarrow.lib.scalar = convert
