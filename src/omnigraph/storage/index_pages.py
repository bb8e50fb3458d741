"""Read the pages of a BTREE index: an equi-depth histogram of its column that costs two small reads.

A segment stores its values sorted, in pages of equal row counts, and beside them a file with the smallest and the
largest value of each page: 3 KB for 300,000 rows. Lance reads it first at every lookup. The format is Lance's own; a
test of the substrate pins its columns.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader
from numpy.typing import NDArray

from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.io_counters import attribute_requests
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import translate_read_errors

_LOOKUP = "page_lookup.lance"
_PAGE_ROWS = b"batch_size"  # a key of the schema metadata


@dataclass(frozen=True, slots=True)
class IndexPages:
    """The pages of one segment, ordered by value; rows without a value come first."""

    lows: pa.Array
    """The smallest value of each page; null if the page begins with rows without a value."""
    highs: pa.Array
    """The largest value of each page; null if none of its rows has a value."""
    nulls: NDArray[np.int64]
    page_rows: int
    """The number of rows of every page but the last."""

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take."""
        return int(self.lows.nbytes + self.highs.nbytes + self.nulls.nbytes)


def read_index_pages(table: LanceTable, segment: str) -> IndexPages:
    """Read the pages of a segment of a BTREE index, given its UUID."""
    store = table.handles.store
    uri = store.resolve_uri(f"{table.path}/_indices/{segment}/{_LOOKUP}")
    errors = translate_read_errors(table.path, table.version, table.handles.explain)
    with attribute_requests(store.runtime.telemetry, "table"), errors:
        reader = LanceFileReader(uri, storage_options=store.lance_options)
        pages = reader.read_all().to_table().sort_by("page_idx")
        page_rows = int((reader.metadata().schema.metadata or {})[_PAGE_ROWS])
    return IndexPages(
        lows=concat_chunks(pages.column("min")),
        highs=concat_chunks(pages.column("max")),
        nulls=np.asarray(pages.column("null_count").to_numpy(), np.int64),
        page_rows=page_rows,
    )
