"""Graph JSONL: what is read, and what becomes of it."""

import io
import tracemalloc
from datetime import UTC, date, datetime

import pytest

from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.line_blocks import read_line_blocks
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.schema.arrow import build_arrow_schema
from record_reading import CATALOG, read, rows_of
from schema_making import accepted
from worlds import runtime


def test_a_node_has_the_columns_of_its_table() -> None:
    rows = rows_of('{"type":"Person","data":{"name":"Ada","age":36,"mood":"sad","level":-1}}')

    assert rows.schema.equals(build_arrow_schema(CATALOG.nodes["Person"]), check_metadata=True)
    assert rows.to_pylist() == [{"id": "Ada", "name": "Ada", "age": 36, "mood": "sad", "level": -1}]


def test_an_edge_is_named_in_any_case() -> None:
    rows = rows_of(
        '{"edge":"knows","from":"a","to":"b","id":"1"}', '{"edge":"KNOWS","from":"b","to":"a","id":"2","data":{}}'
    )

    assert rows.to_pylist() == [
        {"id": "1", "src": "a", "dst": "b", "since": None},
        {"id": "2", "src": "b", "dst": "a", "since": None},
    ]


def test_types_may_be_mixed_and_each_row_knows_its_line() -> None:
    people, knows = read(
        '{"type":"Person","data":{"name":"Ada"}}',
        '{"edge":"Knows","from":"Ada","to":"Bob"}',
        "",
        "// a comment",
        '{"type":"Person","data":{"name":"Bob"}}',
    )

    assert (people.type.name, people.lines.to_pylist()) == ("Person", [1, 5])
    assert (knows.type.name, knows.lines.to_pylist()) == ("Knows", [2])


def test_every_type_of_value_is_read() -> None:
    rows = rows_of(
        '{"type":"Thing","id":"x","data":{"text":"é\\u0000😀","flag":false,"i32":-2147483648,"u32":4294967295,'
        '"i64":"-9223372036854775808","u64":18446744073709551615,"f32":0.1,"f64":-0.0,"day":"2024-02-29",'
        '"seen":"2026-01-02T04:04:05.5+01:00","vec":[1,2.5,-0.0],"tags":["a",""],"nums":[1,"2"],"days":["0001-01-01"]}}'
    )

    (row,) = rows.to_pylist()
    assert row["text"] == "é\0😀"
    assert (row["flag"], row["i32"], row["u32"]) == (False, -(2**31), 2**32 - 1)
    assert (row["i64"], row["u64"]) == (-(2**63), 2**64 - 1)
    assert (round(row["f32"], 6), str(row["f64"])) == (0.1, "-0.0")
    assert row["day"] == date(2024, 2, 29)
    assert row["seen"] == datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC)
    assert (row["vec"], row["tags"], row["nums"]) == ([1.0, 2.5, -0.0], ["a", ""], [1, 2])
    assert row["days"] == [date(1, 1, 1)]


def test_a_blob_is_read_from_base64() -> None:
    rows = rows_of('{"type":"File","id":"f","data":{"body":"base64:AAH/"}}')

    assert rows["body"].to_pylist() == [b"\x00\x01\xff"]


# --- what is left out --------------------------------------------------------------------------------


def test_left_out_and_null_are_told_apart() -> None:
    (found,) = read(
        '{"type":"Person","data":{"name":"a"}}',
        '{"type":"Person","data":{"name":"b","age":null,"level":1}}',
        '{"type":"Person","data":{"name":"c","age":3}}',
    )

    assert found.rows["age"].to_pylist() == [None, None, 3]
    assert found.rows["level"].to_pylist() == [7, 1, 7]
    assert found.left_out["age"].to_pylist() == [True, False, False]
    assert found.left_out["level"].to_pylist() == [True, False, True]
    assert "name" not in found.left_out


def test_a_required_property_may_be_left_out_of_a_partial_record() -> None:
    catalog = accepted("node Item { name: String @key\n price: I32 }")

    (found,) = read('{"type":"Item","data":{"name":"a"}}', catalog=catalog, is_partial=True)

    assert found.rows["price"].to_pylist() == [None]
    assert found.left_out["price"].to_pylist() == [True]


def test_a_key_may_not_be_left_out_of_a_partial_record() -> None:
    with pytest.raises(RecordError) as refused:
        read('{"type":"Person","data":{"age":1}}', is_partial=True)

    assert refused.value.property == "name"


# --- ids ---------------------------------------------------------------------------------------------


def test_an_id_that_agrees_with_the_key_is_let_through() -> None:
    rows = rows_of('{"type":"Person","id":"Ada","data":{"name":"Ada"}}')

    assert rows["id"].to_pylist() == ["Ada"]


def test_a_composite_key_makes_a_json_array() -> None:
    rows = rows_of('{"type":"Visit","data":{"day":"2026-01-02","at":"2026-01-02T03:04:05.50Z","count":-3}}')

    assert rows["id"].to_pylist() == ['["2026-01-02","2026-01-02T03:04:05.500000Z","-3"]']


def test_an_edge_key_is_made_of_its_ends() -> None:
    rows = rows_of('{"edge":"Likes","from":"a\\"","to":"b"}')

    assert rows["id"].to_pylist() == ['["a\\"","b"]']


def test_without_a_key_an_id_is_given_or_made() -> None:
    rows = rows_of('{"type":"File","id":"mine"}', '{"type":"File"}', '{"type":"File"}')

    first, second, third = rows["id"].to_pylist()
    assert first == "mine"
    assert len(second) == len(third) == 26
    assert second < third


# --- streaming ---------------------------------------------------------------------------------------


def numbered(data: bytes, size: int, limit: int, rows: int) -> tuple[list[tuple[int, bytes]], list[int]]:
    """The lines that hold records with their numbers, and the numbers of those that are too long."""
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    kept: list[tuple[int, bytes]] = []
    too_long: list[int] = []
    for block in read_line_blocks(chunks, limit=limit, rows=rows, size=20):
        assert len(block.offsets) - 1 <= rows
        kept += [(block.first + position, block.get_line(position)) for position in block.chosen.tolist()]
        too_long += block.too_long
    return kept, too_long


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_found_however_the_chunks_fall(size: int, rows: int) -> None:
    data = b"first\n\nthird, longer\n// no\n{fifth}\nsixth"

    kept, too_long = numbered(data, size, 100, rows)

    assert kept == [(1, b"first"), (3, b"third, longer"), (5, b"{fifth}"), (6, b"sixth")]
    assert too_long == []


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_a_line_that_is_too_long_is_passed_over(size: int, rows: int) -> None:
    data = b"ab\n" + b"x" * 50 + b"\ncd\n" + b"{" * 60 + b"\n{ef}\n" + b"y" * 11

    kept, too_long = numbered(data, size, 10, rows)

    assert kept == [(1, b"ab"), (3, b"cd"), (5, b"{ef}")]
    assert too_long == [2, 4, 6]


def test_memory_does_not_grow_with_the_input() -> None:
    line = b'{"type":"Person","data":{"name":"%d","age":1}}\n'

    def peak(count: int) -> int:
        chunks = (line % number for number in range(count))
        tracemalloc.start()
        for _ in read_graph_records(chunks, CATALOG, runtime().ids, name="in", window_rows=500):
            pass
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(1_000)
    assert peak(20_000) < 1.5 * peak(2_000)


def test_a_byte_order_mark_and_line_ends_of_windows_are_taken() -> None:
    found = list(
        read_graph_records(
            io.BytesIO(b'\xef\xbb\xbf{"type":"File","id":"a"}\r\n\r\n// x\r\n{"type":"File","id":"b"}'),
            CATALOG,
            runtime().ids,
            name="in",
        )
    )

    assert found[0].rows["id"].to_pylist() == ["a", "b"]


def test_bad_records_come_in_the_order_of_their_lines_with_their_text() -> None:
    seen: list[tuple[int, bytes]] = []
    lines = [b'{"type":"File","id":"%d"}' % number for number in range(10)]
    lines[3] = b'{"type":"File","data":{"body":1}}'
    lines[5] = b"nonsense"
    lines[8] = b'{"type":"File","id":""}'

    found = list(
        read_graph_records(
            io.BytesIO(b"\n".join(lines)),
            CATALOG,
            runtime().ids,
            name="in",
            reject=lambda error, text: seen.append((error.line, text)),
        )
    )

    assert seen == [(4, lines[3]), (6, lines[5]), (9, lines[8])]
    assert found[0].rows["id"].to_pylist() == ["0", "1", "2", "4", "6", "7", "9"]
    assert found[0].lines.to_pylist() == [1, 2, 3, 5, 7, 8, 10]
