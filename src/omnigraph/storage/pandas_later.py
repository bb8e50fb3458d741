"""Keeps pandas out of processes that don't use it.

Where pandas is installed, pyarrow imports it as soon as somebody has an array made, to know values of pandas when it is
given some; importing lance is enough for that. It takes longer than all of this engine. Nobody has values of pandas
before it is imported, so until then pyarrow may do without, and that changes no answer of it:

- Its Python side asks once whether there is a pandas. It is told no, and asks again when pandas has been imported.
- Its C++ side looks for pandas when it converts objects of Python, and never again. So it is left alone: reads here
  convert none, and the one constant that `pyarrow.dataset` makes is handed to it ready-made.
"""

import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa
import pyarrow.lib


class _PandasWatch:
    """A finder of modules that finds pandas where all others do, and tells pyarrow once it is imported."""

    def __init__(self) -> None:
        self.hidden_from: int | None = None
        """The thread for which there is no pandas just now."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the import system asks of a finder."""
        if name != "pandas":
            return None
        if self.hidden_from == threading.get_ident():
            raise ModuleNotFoundError(name=name)
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            self._tell_after(spec)
        return spec

    def _tell_after(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        assert loader is not None  # noqa: S101 - asked before
        execute = loader.exec_module

        def execute_and_tell(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            # A pandas that is too old for pyarrow: whoever has pyarrow work with it is told so then.
            with suppress(ImportError):
                _ = pyarrow.lib._pandas_api.pd  # noqa: SLF001 - looks for pandas again, and nothing public does

        loader.exec_module = execute_and_tell  # type: ignore[method-assign] # this one loader, of this one module


def import_pandas_later() -> None:
    """Have pyarrow go without pandas until somebody imports it; nothing changes where it is imported already."""
    if "pandas" in sys.modules or not hasattr(pyarrow.lib, "_pandas_api"):
        return
    watch = _PandasWatch()
    sys.meta_path.insert(0, watch)
    watch.hidden_from = threading.get_ident()
    try:
        _ = pyarrow.lib._pandas_api.have_pandas  # noqa: SLF001 - it remembers what it finds now
    finally:
        watch.hidden_from = None
    _import_dataset()


def _import_dataset() -> None:
    """Import `pyarrow.dataset`, whose own `scalar(True)` is not converted from an object of Python."""
    true = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\1")])[0]
    convert = pyarrow.lib.scalar

    def scalar(value: object, *args: object, **options: object) -> object:
        return true if value is True and not args and not options else convert(value, *args, **options)

    pyarrow.lib.scalar = scalar
    try:
        from pyarrow import dataset  # noqa: F401, PLC0415 - for what it does while it is imported
    finally:
        pyarrow.lib.scalar = convert
