"""The LRU cache under every bounded cache."""

from omnigraph.lru_cache import LruCache


def test_what_was_used_least_recently_is_dropped_and_named() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")

    dropped = cache.put("c", 3)

    assert dropped == ["b"]
    assert (cache.list_keys(), cache.list_values()) == (["a", "c"], [1, 3])


def test_sizes_count_against_the_limit() -> None:
    cache: LruCache[str, str] = LruCache(10)
    cache.put("a", "x", 4)
    cache.put("b", "y", 4)

    dropped = cache.put("a", "z", 7)

    assert dropped == ["b"]
    assert (cache.size, len(cache)) == (7, 1)


def test_a_value_above_the_limit_is_not_stored_and_drops_nothing_else() -> None:
    cache: LruCache[str, str] = LruCache(10)
    cache.put("a", "x", 4)

    assert cache.put("b", "y", 11) == []
    assert cache.list_keys() == ["a"]


def test_a_value_is_built_once() -> None:
    cache: LruCache[str, object] = LruCache(2)

    first = cache.get_or_build("a", object)

    assert cache.get_or_build("a", object) is first
    assert cache.pop("a") is first
    assert cache.get_or_build("a", object) is not first
