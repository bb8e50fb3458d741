"""What Lance may keep of files and indexes is bounded by what reads may keep."""

from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph.storage import graph_storage as store_module
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.uri import parse_uri
from worlds import FAST, runtime

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "cache_bytes, index, metadata",
    [
        (None, 512 * MIB, 256 * MIB),
        (1, 16 * MIB, 16 * MIB),
        (100 * MIB, 100 * MIB, 100 * MIB),
        (1024 * MIB, 512 * MIB, 256 * MIB),
    ],
)
def test_lance_keeps_no_more_than_reads_may(
    cache_bytes: int | None, index: int, metadata: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, int]] = []
    monkeypatch.setattr(store_module, "Session", lambda **given: made.append(given))

    GraphStorage(parse_uri(str(tmp_path)), runtime(replace(FAST, cache_bytes=cache_bytes)))

    assert made == [{"index_cache_size_bytes": index, "metadata_cache_size_bytes": metadata}]
