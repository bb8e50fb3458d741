"""What a place must offer before a graph is made there."""

from pathlib import Path

import pytest

from omnigraph.lang.source import Source
from omnigraph.ops.create import StoreUnfitError, create
from omnigraph.storage.local_object_store import LocalObjectStore
from worlds import new_world, runtime


@pytest.mark.parametrize("ignored", ["put_if_absent", "put_if_match"])
def test_a_store_that_ignores_conditions_is_refused(
    ignored: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unconditional(store: LocalObjectStore, key: str, data: bytes, _etag: str = "") -> str:
        return store.put(key, data)

    monkeypatch.setattr(LocalObjectStore, ignored, unconditional)

    with pytest.raises(StoreUnfitError, match="overwrite each other"):
        create(str(tmp_path / "g"), Source("node A {}"), actor="ada", runtime=runtime())

    assert not [path for path in (tmp_path / "g").rglob("*") if path.is_file()]


def test_the_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    session = new_world(tmp_path / "g")

    assert session.store.objects.list_under("__recovery") == []
