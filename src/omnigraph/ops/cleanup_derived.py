"""Which objects that were derived from tables go: those that hold data of files which are collected.

An object names the data files that it was derived from. Where one of them is gone, or goes, the object goes too,
however young it is: it may hold what was in that file, and the next reader that wants it derives it again.
"""

import re
from collections.abc import Callable, Iterable

from omnigraph.engine.tables.derived_format import read_files
from omnigraph.storage.garbage_files import TableGarbage
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import DERIVED
from omnigraph.storage.object_store import ObjectInfo, ObjectMissingError

_NAME = re.compile(rf"{DERIVED}/(?:topology|words)-[0-9a-f]{{16}}")
"""The names that this software gives; objects of other names are reported, and left alone."""


class DerivedSorter:
    """Sorts objects below `_derived`. What each was derived from is read once."""

    def __init__(self, store: GraphStorage) -> None:
        self._store = store
        self._source_cache: dict[ObjectInfo, frozenset[str] | None] = {}

    def sort(self, objects: Iterable[ObjectInfo], is_left: Callable[[str], bool]) -> TableGarbage:
        """Sort objects, where `is_left` tells by its name whether a data file stays.

        One that can't be read, or does not say what it was derived from, is of no use and goes.
        """
        garbage: list[ObjectInfo] = []
        strangers: list[ObjectInfo] = []
        for info in objects:
            if not _NAME.fullmatch(info.key):
                strangers.append(info)
                continue
            files = self._find_source_files(info)
            if files is None or not all(map(is_left, files)):
                garbage.append(info)
        return TableGarbage(tuple(garbage), tuple(strangers))

    def _find_source_files(self, info: ObjectInfo) -> frozenset[str] | None:
        if info not in self._source_cache:
            self._source_cache[info] = self._read(info)
        return self._source_cache[info]

    def _read(self, info: ObjectInfo) -> frozenset[str] | None:
        if not info.size:
            return None
        try:
            return read_files(lambda size: self._store.objects.get_start(info.key, size))
        except ObjectMissingError:  # a reader has just found it damaged, or another cleanup has removed it
            return None
