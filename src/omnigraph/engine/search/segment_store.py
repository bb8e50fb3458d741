"""Find, open and store the segments of a column's text index beside the tables."""

from collections.abc import Callable, Sequence

import pyarrow as pa

from omnigraph.engine.search.index_codec import (
    Files,
    FragmentRows,
    SegmentName,
    build_segment_name,
    build_text_prefix,
    digest_fragments,
    encode_segment,
    parse_segment_name,
)
from omnigraph.engine.search.inverted_index import InvertedIndex, build_index
from omnigraph.engine.search.segment_reader import open_segment
from omnigraph.engine.search.stored_index import StoredTextIndex
from omnigraph.engine.tables.column_store import concat_chunks
from omnigraph.engine.tables.derived_format import DerivedDataError
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.storage.fragment_list import Fragment
from omnigraph.telemetry import log


class SegmentStore:
    """The stored segments of one column in one language, as far as a version of its table has their rows."""

    def __init__(self, cache: GraphCache, rows: TableReader, column: str, language: str | None) -> None:
        self._cache = cache
        self._rows = rows
        self._column = column
        self._language = language
        self._prefix = build_text_prefix(rows.table.path, rows.table.find_field_number(column))
        # Of one listing: a segment that is stored meanwhile is found by the next search.
        self._names: dict[tuple[str, int], list[SegmentName]] | None = None

    def find(self, fragments: Sequence[Fragment], offset: int) -> tuple[FragmentRows, StoredTextIndex] | None:
        """Return the longest segment that begins at the row `offset` of the first of these fragments, if any."""
        names = self._list_names()
        if not names:
            return None
        files = tuple(fragments[0].files)
        for name in names.get((digest_fragments([files]), offset), ()):
            covered = FragmentRows(tuple(f.files for f in fragments[: name.count]), name.rows, offset)
            total = sum(f.rows for f in fragments[: name.count])
            # Segments of other branches may begin with the same fragment and go on with others: the digest in the name
            # tells them apart. A part of a fragment is covered alone, never together with rows of another one.
            is_whole = not offset and total == name.rows
            is_part = name.count == 1 and offset + name.rows <= total
            if (is_whole or is_part) and build_segment_name(covered, self._language) == name:
                index = self._open(covered)
                if index is not None:
                    return covered, index
        return None

    def _list_names(self) -> dict[tuple[str, int], list[SegmentName]]:
        """Return the names of all segments by the start of what they cover, longest first; listed once."""
        if self._names is None:
            self._names = {}
            for key in self._cache.list_derived(self._prefix):
                name = parse_segment_name(key)
                if name is not None:
                    self._names.setdefault((name.first, name.offset), []).append(name)
            for names in self._names.values():
                names.sort(key=lambda name: -name.rows)
        return self._names

    def _open(self, covered: FragmentRows) -> StoredTextIndex | None:
        key = self._build_key(covered)
        cache = self._cache

        def rebuild() -> InvertedIndex:
            texts = self.read_texts(covered.fragments).slice(covered.offset, covered.rows)
            index = build_index(texts, None, self._language)
            # Over the damaged one, so that the next process finds a whole one.
            self.store([(covered, index)])
            return index

        try:
            stored = cache.get_or_build(
                ("text segment", key),
                lambda: open_segment(
                    lambda start, size: cache.read_derived_range(key, start, size), covered, self._language
                ),
                lambda value: value.nbytes,
            )
            return StoredTextIndex(stored, covered, cache.lru, key, rebuild)
        except (DerivedDataError, ValueError) as error:
            log.warning("a stored text index can't be used (%s) and is built again", error)
            # Those who need it build it, and replace what is damaged.
            return None

    def read_texts(self, fragments: Sequence[Files]) -> pa.Array:
        """Return the texts of all rows that were written to some fragments."""
        columns = self._rows.columns
        by_files = {f.files: f.number for f in columns.layout.fragments}
        numbers = [by_files[files] for files in fragments]
        type_ = columns.table.schema.field(self._column).type
        # Deleted rows too: versions from before and after a deletion share a segment, and each leaves out its own.
        batches = columns.table.iter_written_rows([self._column], numbers)
        return concat_chunks([batch.column(self._column) for batch in batches], type_)

    def store(self, built: Sequence[tuple[FragmentRows, InvertedIndex]]) -> None:
        """Store segments in the background, one after the other."""
        objects = [(self._build_key(covered), self._build_encoder(covered, index)) for covered, index in built]
        self._cache.store_derived(objects, [self._rows.table])

    def _build_encoder(self, covered: FragmentRows, index: InvertedIndex) -> Callable[[], list[memoryview | bytes]]:
        # A method, so that each function has its own index: in a comprehension all would encode the last one.
        return lambda: encode_segment(index, covered, self._language)

    def _build_key(self, covered: FragmentRows) -> str:
        return f"{self._prefix}{build_segment_name(covered, self._language)}"
