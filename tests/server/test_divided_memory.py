"""The memory settings of a server are divided over its workers."""

import pytest

from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.server.workers import worker_server
from omnigraph.storage import graph_storage


@pytest.mark.parametrize("cache_bytes", [None, 800_000_000])
def test_workers_together_cache_as_much_as_one_process(
    cache_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_server, "detect_memory_limit", lambda: 3_200_000_000)

    options = worker_server._divide_memory(Runtime(options=Options(cache_bytes=cache_bytes)), 4).options

    assert (options.cache_bytes, options.cache_shares) == (200_000_000, 4)


def test_the_caches_of_lance_are_divided_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[dict[str, int]] = []
    monkeypatch.setattr(graph_storage, "Session", lambda **given: sizes.append(given))

    for shares in (1, 4):
        graph_storage._open_session(None, shares)
    # A smaller cache of reads limits each of them as well.
    graph_storage._open_session(graph_storage._MIN_CACHE_BYTES, 4)

    whole, quarter, small = sizes
    assert quarter == {name: size // 4 for name, size in whole.items()}
    assert set(small.values()) == {graph_storage._MIN_CACHE_BYTES}
