# ruff: noqa: S608 - the texts are those of this file
"""A statement can't make a value so large that the process dies of it: DuckDB counts no values inside of functions."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.duckdb.allowed_functions import SCALAR_FUNCTIONS
from omnigraph.engine.duckdb.process_memory import watch_growth
from omnigraph.engine.duckdb.sql_errors import SqlError, SqlMemoryError
from omnigraph.engine.duckdb.table_streams import TableStream
from omnigraph.storage.lance_table import LanceTable
from worlds import runtime

TEXT = "(select string_agg('x', '') from range(60000))"


@pytest.mark.parametrize(
    "call",
    [
        "replace({text}, 'x', {text})",
        "regexp_replace({text}, 'x', {text}, 'g')",
        "regexp_replace({text}, '(x)', {text})",
        "{text}.replace('x', {text})",
    ],
)
def test_a_replacement_that_may_be_huge_is_refused(people: og.Graph, call: str) -> None:
    with pytest.raises(SqlError, match="may have more than 268,435,456 characters"):
        people.sql(f"select length({call.format(text=TEXT)}) as n")


def test_other_replacements_are_those_of_duckdb(people: og.Graph) -> None:
    rows = people.sql(
        "select replace('abab', 'b', 'xy') a, replace(null, 'a', 'b') b, regexp_replace('abab', 'b', '') c,"
        " regexp_replace('abab', '(b)', '<\\1>', 'g') d"
    ).rows()

    assert rows == [{"a": "axyaxy", "b": None, "c": "aab", "d": "a<b>a<b>"}]


@pytest.mark.parametrize(
    "name", ["damerau_levenshtein", "editdist3", "jaro_similarity", "jaro_winkler_similarity", "levenshtein"]
)
def test_a_distance_of_long_texts_is_refused(people: og.Graph, name: str) -> None:
    assert people.sql(f"select {name}('abc', 'abc') = {name}('x', 'x') as same, {name}(null, 'x') as none").rows() == [
        {"same": True, "none": None}
    ]
    with pytest.raises(SqlError, match="1,048,576"):
        people.sql(f"select {name}(s, s || 'y') as n from (select {TEXT} as s)")


def test_what_duckdb_does_not_count_is_stopped_by_the_size_of_the_process(people: og.Graph) -> None:
    # JSON is built in memory of its own: 60,000 copies of a text are 3.6 GB of it.
    lists = f"select {TEXT} as s, (select list(range) from range(60000)) as n"

    with pytest.raises(SqlMemoryError, match="its memory limit of 100,000,000 bytes"):
        people.sql(
            f"select length(to_json(list_transform(n, lambda y: s))::varchar) as n from ({lists}) as x",
            memory_bytes=100_000_000,
        )


@pytest.mark.parametrize("name", ["reservoir_quantile", "setseed", "repeat", "lpad", "list_resize", "printf", "format"])
def test_functions_that_change_state_or_allocate_what_they_are_told_are_not_allowed(name: str) -> None:
    assert name not in SCALAR_FUNCTIONS


def test_long_texts_are_handed_over_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node Doc { k: I64 @key  text: String }", runtime=runtime())
    texts = [secrets.token_hex(2**16) for _ in range(300)]
    graph.load(nodes={"Doc": pa.table({"k": range(300), "text": texts})}, mode="append")
    sizes: list[int] = []
    original = TableStream._read_batches

    def read(stream: TableStream, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in original(stream, schema):
            sizes.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(TableStream, "_read_batches", read)
    asked: list[int] = []
    decode = LanceTable.iter_batches

    def iter_batches(table: LanceTable, *arguments: Any, batch_rows: int, **options: Any) -> Iterator[pa.RecordBatch]:
        asked.append(batch_rows)
        return decode(table, *arguments, batch_rows=batch_rows, **options)

    monkeypatch.setattr(LanceTable, "iter_batches", iter_batches)

    assert graph.sql("select sum(length(upper(text))) as n from Doc").rows() == [{"n": 300 * 2**17}]
    assert graph.sql("select sum(k) as n from Doc").rows() == [{"n": 300 * 299 // 2}]
    assert max(sizes) <= 2**23 < sum(sizes)
    # Of a type with texts; of one without, as many as there are.
    assert 64 <= asked[0] < 200 < asked[1]


def test_growth_counts_from_the_first_statement_and_against_the_latest() -> None:
    with watch_growth(2**20) as first, watch_growth(2**20) as second:
        assert first is not None
        assert second is not None
        kept = bytearray(400 * 2**20)
        assert not first.is_exceeded()
        assert second.is_exceeded()
    assert kept
    with watch_growth(None) as unlimited:
        assert unlimited is None
