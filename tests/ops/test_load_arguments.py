"""What `Graph.load` takes: paths, files, records, tables; and what it refuses."""

import io
import json
from collections import OrderedDict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import omnigraph as og
from mutating import column, new_graph, rows

SCHEMA = """
node Thing {
  name: String @key
  day: Date?
  seen: DateTime?
  count: I64?
  share: F64?
  tags: [String]?
  vec: Vector(2)?
}
edge Near: Thing -> Thing
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path, SCHEMA)


def thing(name: str, **data: object) -> dict[str, object]:
    return {"type": "Thing", "data": {"name": name, **data}}


def lines(*names: str) -> bytes:
    return "".join(json.dumps(thing(name)) + "\n" for name in names).encode()


# --- graph JSONL -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_is_a_file(graph: og.Graph, tmp_path: Path, as_text: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(lines("a"))

    graph.load(str(path) if as_text else path, mode="append")

    assert column(graph, "Thing", "id") == ["a"]


def test_a_binary_file_is_read(graph: og.Graph) -> None:
    graph.load(io.BytesIO(lines("a")), mode=og.LoadMode.APPEND)

    assert column(graph, "Thing", "id") == ["a"]


def test_files_and_paths_go_together(graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_bytes(lines("b"))

    sources: list[Path | io.BytesIO] = [io.BytesIO(lines("a")), path]

    graph.load(sources, mode="append")

    assert column(graph, "Thing", "id") == ["a", "b"]


def test_records_may_come_one_after_the_other(graph: og.Graph) -> None:
    edges: list[dict[str, object]] = [{"edge": "Near", "from": name, "to": "a"} for name in "ab"]

    graph.load((one for one in [*edges, thing("a"), OrderedDict(thing("b"))]), mode="append")

    assert column(graph, "Thing", "id") == ["a", "b"]
    assert column(graph, "Near", "dst") == ["a", "a"]


@pytest.mark.parametrize("nothing", [[], iter(())])
def test_nothing_is_nothing_to_do(graph: og.Graph, nothing: Any) -> None:
    done = graph.load(nothing, mode="append")

    assert (done.commit_id, done.nodes) == (None, {})


def test_values_of_python_are_taken_as_their_types(graph: og.Graph) -> None:
    graph.load(
        [
            thing(
                "a",
                day=date(2026, 1, 2),
                seen=datetime(2026, 1, 2, 3, tzinfo=UTC),
                count=np.int64(2**60),
                share=np.float32(0.5),
                tags=("x", "y"),
                vec=np.array([1.0, 2.0]),
            )
        ],
        mode="append",
    )

    (row,) = rows(graph, "Thing")
    assert row == {
        "id": "a",
        "name": "a",
        "day": date(2026, 1, 2),
        "seen": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "count": 2**60,
        "share": 0.5,
        "tags": ["x", "y"],
        "vec": [1.0, 2.0],
    }


@pytest.mark.parametrize(
    "data, reason",
    [
        ({"share": float("nan")}, "NaN is not a JSON number"),
        ({"seen": datetime(2026, 1, 2)}, "expected"),  # noqa: DTZ001 - that it has no zone is the point
        ({"count": 1.5}, "expected a whole number"),
        ({"colour": "red"}, 'unknown property "colour"'),
    ],
)
def test_a_record_that_does_not_fit_is_told_by_its_number(
    graph: og.Graph, data: dict[str, object], reason: str
) -> None:
    with pytest.raises(og.LoadError, match=reason) as error:
        graph.load([thing("a"), thing("b", **data)], mode="append")

    assert [(one.file, one.line) for one in error.value.problems] == [("<records>", 2)]


def test_a_record_that_does_not_fit_can_be_set_aside(graph: og.Graph, tmp_path: Path) -> None:
    done = graph.load([thing("a", share=float("inf")), thing("b")], mode="append", on_error=tmp_path / "bad")

    assert done.rejected == 1
    assert column(graph, "Thing", "id") == ["b"]


@pytest.mark.parametrize(
    "value, reason",
    [
        (Decimal("0.1"), r"the Decimal 0\.1 can't be held exactly by a float; give float\(…\) if rounding is meant"),
        ([Decimal("0.1")], r"the Decimal 0\.1 can't be held"),
        (np.datetime64("2026"), r"a datetime64\[Y\] is not a single day"),
        ({1, 2}, "a set can't be a value of a record"),
        (object(), "an? object can't be a value of a record"),
    ],
)
def test_a_value_that_is_none_stops_the_load(graph: og.Graph, value: object, reason: str) -> None:
    with pytest.raises(og.RecordError, match=rf"record 2: `Thing\.share`: {reason}"):
        graph.load([thing("a"), thing("b", share=value)], mode="append")

    assert column(graph, "Thing", "id") == []


@pytest.mark.parametrize(
    "value, found",
    [(Decimal("1.5"), 1.5), (np.float32(0.5), 0.5), (np.int32(2), 2.0), (pd.NA, None), (pd.NaT, None)],
)
def test_a_value_of_another_library_is_taken_for_what_it_says(
    graph: og.Graph, value: object, found: float | None
) -> None:
    graph.load([thing("a", share=value)], mode="append")

    assert column(graph, "Thing", "share") == [found]


def test_a_record_that_is_no_mapping_is_told_by_its_number(graph: og.Graph) -> None:
    records: Any = [thing("a"), {"name"}]

    with pytest.raises(og.RecordError, match="record 2: a set can't be a value of a record"):
        graph.load(records, mode="append")


@pytest.mark.parametrize(
    "data, message",
    [
        (thing("a"), "not a dict"),
        (b'{"type": "Thing"}', "not a bytes"),
        (io.StringIO("{}"), "not a text file"),
        (["a.jsonl", thing("a")], "holds paths and binary files, or records"),
    ],
)
def test_what_can_not_be_read_is_refused(graph: og.Graph, tmp_path: Path, data: Any, message: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines("a"))

    with pytest.raises(TypeError, match=message):
        graph.load(data, mode="append")


def test_a_mode_that_is_none_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError) as caught:
        graph.load([], mode="replace")

    assert str(caught.value) == '`mode` can\'t be "replace": it must be one of append, merge, overwrite'
    assert caught.value.kind is og.Kind.USAGE


def test_a_mode_that_is_nearly_one_is_hinted_at(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match=r"did you mean `append`\?"):
        graph.load([], mode="apend")


def test_a_format_that_is_none_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match=r"`format` can't be \"csv\": it must be one of jsonl, parquet"):
        graph.export(io.BytesIO(), format="csv")


def test_a_load_of_nothing_named_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.BadArgumentError, match=r"name what to load: graph JSONL, or rows by `nodes` and `edges`"):
        graph.load(mode="append")


@pytest.mark.parametrize(
    "max_errors, on_error, reason",
    [
        (-1, "bad", "`max_errors` can't be -1: it must be a whole number, 0 or more"),
        (True, "bad", "`max_errors` can't be true: it must be a whole number, 0 or more"),
        (3, None, "`max_errors` can't be 3: without `on_error`, a directory, the first bad record fails the load"),
    ],
)
def test_a_number_of_bad_records_that_means_nothing_is_refused(
    graph: og.Graph, tmp_path: Path, max_errors: int, on_error: str | None, reason: str
) -> None:
    directory = None if on_error is None else tmp_path / on_error

    with pytest.raises(og.BadArgumentError) as caught:
        graph.load([], mode="append", max_errors=max_errors, on_error=directory)

    assert str(caught.value) == reason


@pytest.mark.parametrize(
    "given, reason",
    [
        ({"edges": {"Thing": pa.table({"name": ["a"]})}}, "`Thing` is a node type.*pass them as `nodes`"),
        ({"nodes": {"Near": pa.table({"from": ["a"], "to": ["a"]})}}, "`Near` is an edge type.*pass them as `edges`"),
    ],
)
def test_rows_of_the_other_kind_are_told_where_they_belong(graph: og.Graph, given: Any, reason: str) -> None:
    with pytest.raises(og.BadArgumentError, match=reason):
        graph.load(**given, mode="append")


# --- of one type -----------------------------------------------------------------------------------------------------


def test_a_table_is_rows_of_its_type(graph: og.Graph) -> None:
    graph.load(
        mode="append",
        nodes={"Thing": pa.table({"called": ["a", "b"], "count": [1, None]})},
        edges={"Near": pa.table({"from": ["a"], "to": ["b"]})},
        map={"Thing.name": "called"},
    )

    assert column(graph, "Thing", "count") == [1, None]
    assert column(graph, "Near", "src") == ["a"]


def test_several_files_are_rows_of_one_type(graph: og.Graph, tmp_path: Path) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path in paths:
        path.write_text(f"name\n{path.stem}\n", encoding="utf-8")

    graph.load(mode="append", nodes={"Thing": paths})

    assert column(graph, "Thing", "id") == ["a", "b"]


def test_rows_that_are_no_table_are_refused(graph: og.Graph) -> None:
    with pytest.raises(TypeError, match="rows of `Thing` are a path, several paths, mappings, or a table"):
        graph.load(mode="append", nodes={"Thing": cast("Any", [1])})
    with pytest.raises(TypeError, match="a list of mappings, one for each row, not one mapping"):
        graph.load(mode="append", nodes={"Thing": cast("Any", {"name": "a"})})
    with pytest.raises(TypeError, match="rows of `Thing` are mappings, not 1"):
        graph.load(mode="append", nodes={"Thing": cast("Any", [{"name": "a"}, 1])})


def test_rows_may_be_mappings_and_lazy_frames(graph: og.Graph) -> None:
    things: list[dict[str, object]] = [{"called": "a", "count": 1}, {"called": "b"}]
    graph.load(
        mode="append",
        nodes={"Thing": things},
        edges={"Near": pl.LazyFrame({"from": ["a"], "to": ["b"]})},
        map={"Thing.name": "called"},
    )
    graph.load(mode="append", edges={"Near": [{"src": "b", "dst": "a"}, {"from": "a", "to": "a"}]})

    assert column(graph, "Thing", "count") == [1, None]
    assert sorted(column(graph, "Near", "src")) == ["a", "a", "b"]


def test_a_bad_mapping_is_a_row_of_its_type(graph: og.Graph) -> None:
    with pytest.raises(og.LoadError) as error:
        graph.load(mode="append", nodes={"Thing": [{"name": "a"}, {"name": "b", "count": "x"}]})

    assert str(error.value).startswith("<nodes Thing>, row 2: `Thing.count`")


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["a", "b"])])
def test_texts_of_frames_may_be_encoded(dtype: pl.DataType, graph: og.Graph) -> None:
    graph.load(mode="append", nodes={"Thing": pl.DataFrame({"name": pl.Series(["a", "b"], dtype=dtype)})})

    assert column(graph, "Thing", "id") == ["a", "b"]


def test_extension_types_of_pandas_are_read(graph: og.Graph) -> None:
    frame = pd.DataFrame({"name": pd.Categorical(["a", "b"]), "count": pd.array([1, None], dtype="Int64")})

    graph.load(mode="append", nodes={"Thing": frame})

    assert column(graph, "Thing", "count") == [1, None]


def test_all_unknown_columns_are_named_at_once(graph: og.Graph) -> None:
    with pytest.raises(
        og.OmnigraphError, match='"nam" \\(did you mean `name`\\?\\), "zz"; map them, or leave them out'
    ):
        graph.load(mode="append", nodes={"Thing": pa.table({"nam": ["a"], "zz": [1]})})


def test_a_column_for_a_type_that_is_not_loaded_is_refused(graph: og.Graph) -> None:
    with pytest.raises(og.OmnigraphError, match="no file of this type is loaded from columns") as error:
        graph.load([], mode="append", map={"Thing.name": "called"})

    assert error.value.kind is og.Kind.USAGE


def test_a_branch_that_is_not_there_is_not_found(graph: og.Graph) -> None:
    for call in (
        lambda: graph.load([], mode="append", branch="dev"),
        lambda: graph.mutate('query q() { delete Thing where name = "a" }', branch="dev"),
        lambda: graph.export(io.BytesIO(), branch="dev"),
    ):
        with pytest.raises(og.BranchMissingError, match="no branch `dev`; it has `main`"):
            call()


@pytest.mark.parametrize("argument", ["nodes", "edges", "map"])
@pytest.mark.parametrize("given", [{5: "things.csv"}, "Thing=things.csv"])
def test_names_that_are_no_text_are_refused(graph: og.Graph, argument: str, given: Any) -> None:
    with pytest.raises(TypeError, match=f"`{argument}` must map .*, such as "):
        graph.load([], mode="append", **{argument: given})
