"""Generate the graph of a forum, the same on each run: people who know each other, their posts, likes and topics.

For each person there are about 22 `knows`, 20 `likes` and 5 posts, and each post has two tags. Some people are known,
and some posts liked, much more often than others. No edge is there twice, so that all engines count the same matches.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

SCHEMA = """
node Person { key: String @key  first: String @index  last: String  age: I32 }
node Post { key: String @key  lang: String  created: I64  length: I32 }
node Tag { key: String @key  name: String @index }
edge Knows: Person -> Person
edge Likes: Person -> Post
edge Wrote: Person -> Post
edge HasTag: Post -> Tag
"""

ENDS = {
    "Knows": ("Person", "Person"),
    "Likes": ("Person", "Post"),
    "Wrote": ("Person", "Post"),
    "HasTag": ("Post", "Tag"),
}
LANGUAGES = ("de", "en", "es", "fr", "hi", "ja", "pt", "zh")
TAGS, FIRST_NAMES, LAST_NAMES = 2_000, 400, 5_000
SECONDS = 100_000_000
"""The time during which posts were written."""
KNOWS, LIKES, POSTS, POST_TAGS = 22, 20, 5, 2
_SEED = 2_311


@dataclass(frozen=True)
class Forum:
    """The whole graph: a table per node type, and the row numbers of the ends per edge type."""

    people: int
    nodes: dict[str, pa.Table]
    edges: dict[str, tuple[Numbers, Numbers]]

    def build_keyed_edges(self, edge: str) -> pa.Table:
        """Return the edges of a type with keys as `from` and `to`."""
        keys = (self.nodes[type_].column("key") for type_ in ENDS[edge])
        columns = (key.take(pa.array(rows)) for key, rows in zip(keys, self.edges[edge], strict=True))
        return pa.table(dict(zip(("from", "to"), columns, strict=True)))

    def build_numbered(self, name: str) -> pa.Table:
        """Return a type with integers as keys, for the peers."""
        if name in self.edges:
            source, target = self.edges[name]
            return pa.table({"src": source, "dst": target})
        table = self.nodes[name]
        return table.add_column(0, "id", pa.array(np.arange(table.num_rows)))

    def write(self, root: Path) -> None:
        """Write each type to a Parquet file with integers as keys."""
        for name in (*self.nodes, *self.edges):
            pq.write_table(self.build_numbered(name), root / f"{name}.parquet")


def build_forum(people: int) -> Forum:
    """Generate the graph; the number of edges is approximate, because duplicates are removed."""
    random = np.random.default_rng(_SEED)
    posts = POSTS * people
    nodes = {
        "Person": pa.table(
            {
                "key": _build_keys("p", people),
                "first": _draw_texts(random, people, "First", FIRST_NAMES, 1.5),
                "last": _draw_texts(random, people, "Last", LAST_NAMES, 1.0),
                "age": pa.array(random.integers(18, 91, people), pa.int32()),
            }
        ),
        "Post": pa.table(
            {
                "key": _build_keys("m", posts),
                "lang": pa.array(LANGUAGES).take(pa.array(_draw_skewed(random, posts, len(LANGUAGES), 2.0))),
                "created": random.integers(0, SECONDS, posts),
                "length": pa.array(random.integers(1, 2_000, posts), pa.int32()),
            }
        ),
        "Tag": pa.table({"key": _build_keys("t", TAGS), "name": [f"topic {number:04}" for number in range(TAGS)]}),
    }
    popular_people, popular_posts = random.permutation(people), random.permutation(posts)
    knows = popular_people[_draw_skewed(random, KNOWS * people, people, 1.5)]
    likes = popular_posts[_draw_skewed(random, LIKES * people, posts, 2.0)]
    edges = {
        "Knows": _build_edges(random.integers(0, people, KNOWS * people), knows, people, is_loop_free=True),
        "Likes": _build_edges(random.integers(0, people, LIKES * people), likes, posts),
        "Wrote": _build_edges(random.integers(0, people, posts), np.arange(posts), posts),
        "HasTag": _build_edges(
            random.integers(0, posts, POST_TAGS * posts), _draw_skewed(random, POST_TAGS * posts, TAGS, 2.0), TAGS
        ),
    }
    return Forum(people, nodes, edges)


def _build_keys(prefix: str, count: int) -> pa.Array:
    return pa.array(np.char.add(prefix, np.arange(count).astype(str)))


def _draw_texts(random: np.random.Generator, count: int, prefix: str, distinct: int, skew: float) -> pa.Array:
    texts = pa.array([f"{prefix} {number:04}" for number in range(distinct)])
    return texts.take(pa.array(_draw_skewed(random, count, distinct, skew)))


def _draw_skewed(random: np.random.Generator, count: int, below: int, skew: float) -> Numbers:
    """Draw numbers below a bound; the larger the skew, the more often small ones."""
    return (below * random.random(count) ** skew).astype(np.int64)


def _build_edges(
    source: Numbers, target: Numbers, targets: int, *, is_loop_free: bool = False
) -> tuple[Numbers, Numbers]:
    pairs = source * targets + target
    if is_loop_free:
        pairs = pairs[source != target]
    pairs = np.sort(pairs)
    pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
    return pairs // targets, pairs % targets
