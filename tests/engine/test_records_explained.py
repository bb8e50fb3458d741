"""Struct and explainer give the same: rows, order, what was left out, what is refused."""

import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.decoding import graph_jsonl, object_decoder, record_explainer
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.json_lines import decode_object
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_jsonl import read_typed_lines
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.schema.catalog import Catalog
from property_profiles import SOME_AND_MANY, profile
from record_lines import LINES
from record_reading import CATALOG, refusals
from schema_making import accepted


@dataclass
class CountedIds:
    """Ids that come again in the same order."""

    last: int = 0

    def ulid(self) -> str:
        self.last += 1
        return f"{self.last:026d}"

    def ulids(self, count: int) -> bytes:
        return "".join(self.ulid() for _ in range(count)).encode()

    def jitter(self, limit: float) -> float:
        return limit / 2


@dataclass
class Outcome:
    """All that a read gives, in a form that can be compared to the last bit."""

    rows: list[object] = field(default_factory=list)
    rejected: list[object] = field(default_factory=list)

    def take(self, found: TypedRows) -> None:
        found.rows.validate(full=True)
        left_out = {name: mask.to_pylist() for name, mask in found.left_out.items()}
        values = [repr(column.to_pylist()) for column in found.rows.columns]
        assert found.lines.type == pa.int64()
        self.rows.append((found.type.name, values, found.lines.to_pylist(), left_out))

    def reject(self, error: RecordError, text: bytes) -> None:
        self.rejected.append((error.args, text))


def decode_none(_decode: object, texts: Iterable[object], blank: object) -> tuple[list[object], list[int]]:
    """Decode nothing, so that the explainer gets every line."""
    rows = len(list(texts))
    return [blank] * rows, list(range(rows))


def outcome(text: bytes, *, is_partial: bool = False, catalog: Catalog = CATALOG) -> Outcome:
    found = Outcome()
    for rows in read_graph_records(
        io.BytesIO(text),
        catalog,
        CountedIds(),
        name="in",
        is_partial=is_partial,
        reject=found.reject,
        window_rows=40,
    ):
        found.take(rows)
    return found


def explained_outcome(text: bytes, *, is_partial: bool = False, catalog: Catalog = CATALOG) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_jsonl, "decode_each", decode_none)
        return outcome(text, is_partial=is_partial, catalog=catalog)


@SOME_AND_MANY
def test_both_give_the_same(examples: int) -> None:
    @given(lines=st.lists(LINES, max_size=12), is_partial=st.booleans(), end=st.sampled_from([b"", b"\n", b"\r\n"]))
    @profile(examples)
    def check(lines: list[bytes], is_partial: bool, end: bytes) -> None:
        text = b"\n".join(lines) + end

        assert outcome(text, is_partial=is_partial) == explained_outcome(text, is_partial=is_partial)

    check()


# --- what a lenient reader takes, and we don't --------------------------------------------------------

TYPED = accepted(
    "node T { type: String?\n f64: F64?\n f32: F32?\n i32: I32? }\nnode Odd { data: String? }\nnode U { edge: String? }"
)
LENIENT = {
    "two objects on a line": b'{"type":"T"}{"type":"T"}\n',
    "an object on two lines": b'{"type":"T","data":\n{"type":"T"}}{"type":"T"}\n',
    "an object on two lines, and two on one": b'{"type":"T","data":{}\n,"id":"x"}\n{"type":"T"}{"type":"T"}\n',
    "a NUL ends the text": b'{"type":"T"}\n{"type":"T"}\x00\n{"type":"T"}\n',
    "a NUL between objects": b'{"type":"T"}\n{"type":"T"}\x00}\n{"type":"T"}\n',
    "bytes that are no text": b'{"type":"T","data":{"type":"\xff"}}\n',
    "a surrogate in UTF-8": b'{"type":"T","id":"\xed\xa0\x80"}\n',
    "NaN": b'{"type":"T","data":{"f64":NaN}}\n',
    "Inf": b'{"type":"T","data":{"f64":-Inf}}\n',
    "minus zero": b'{"type":"T","data":{"f64":-0,"f32":-0}}\n',
    "beyond 53 bits": b'{"type":"T","data":{"f64":9007199254740993}}\n',
    "beyond 24 bits": b'{"type":"T","data":{"f32":16777217}}\n',
    "rounded once, not twice": b'{"type":"T","data":{"f32":1.000000059604644775390625000000001}}\n',
    "null is not left out": b'{"type":"T","data":{"f64":null}}\n{"type":"T","data":{"i32":null}}\n{"type":"T"}\n',
    "null behind blanks": b'{"type":"T","data":{"f64" : null}}\n{"type":"T","data":{"f64":\tnull}}\n{"type":"T"}\n',
    "null of a name with an escape": b'{"type":"T","data":{"f6\\u0034":null}}\n{"type":"T"}\n',
    "text that says null": b'{"type":"T","data":{"type":"\\"f64\\": null"}}\n{"type":"T","data":{"f64":null}}\n',
    "data is null": b'{"type":"T","data":null}\n{"type":"T"}\n',
    "a property called data": b'{"type":"Odd","data":null}\n{"type":"Odd","data":{"data":null}}\n{"type":"Odd"}\n',
    "a name twice": b'{"type":"T","data":{"i32":1,"i32":2}}\n{"type":"T","type":"T"}\n',
    "a type behind a text that looks like one": b'{"id":"\\"type\\":\\"T\\"","type":"T"}\n{"id":"x","type":"Odd"}\n',
    "a type behind another one": b'{"data":{"edge":"Odd"},"type":"U"}\n{"data":{"edge":"U"},"type":"U"}\n',
    "a type that is not there": b'{"data":{"edge":"U"}}\n{"id":"x","type":null}\n{"id":"x","type":"T","edge":"U"}\n',
    "a type behind its data": b'{"data":{"i32":1},"id":"a","type":"T"}\n{"data":{"edge":"a"},"type":"U"}\n',
    "a name twice, once behind a blank": b'{"type":"T","data":{"i32":1,"i32" :2}}\n{"type":"T","type"\t :"T"}\n',
    "a name twice, once with an escape": b'{"type":"T","data":{"i32":1,"i3\\u0032":2}}\n',
    "a name twice, and a text that looks like a key": b'{"type":"T","data":{"type":"\\": \\\\","type":"a\\\\"}}\n',
    "a name twice inside a value": b'{"type":"T","data":{"type":{"a\\\\":1,"a\\\\":2}}}\n',
    "texts that look like keys": b'{"type":"T","data":{"type":"\\"a\\":1, \\"b\\" : 2, c : d, \\\\\\":"}}\n',
    "a byte order mark on a later line": b'{"type":"T"}\n\xef\xbb\xbf{"type":"T"}\n',
}


@pytest.mark.parametrize("case", LENIENT)
def test_what_is_often_let_through_is_judged_strictly(case: str) -> None:
    text = LENIENT[case]

    assert outcome(text, catalog=TYPED) == explained_outcome(text, catalog=TYPED)


def test_a_key_is_never_there_twice() -> None:
    cases = [text for case, text in LENIENT.items() if case.startswith("a name twice")]

    reasons = [error.reason for text in cases for error in refusals(*text.splitlines(), catalog=TYPED)]

    assert len(reasons) == 7
    assert all(reason.endswith("is there twice") for reason in reasons)


GOOD = b"".join(
    b'{"type":"T","id":"%d","data":{"type":"a","f64":%d.5,"f32":-1,"i32":%d}}\n' % (number, number, number)
    for number in range(1000)
)
BAD = b'{"type":"T","id":"bad","data":{"i32":1,"i32":2}}\n'


@pytest.mark.parametrize("spelling", ["compact", "with blanks", "type last", "blank before the colon"])
def test_good_lines_are_not_read_one_by_one(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [{"edge": "knows", "from": f"a{row}", "to": "b", "data": {"since": "2020-01-01"}} for row in range(1000)]
    lines = {
        "compact": [json.dumps(edge, separators=(",", ":")) for edge in edges],
        "with blanks": [json.dumps(edge) for edge in edges],
        "type last": [json.dumps(edge, sort_keys=True) for edge in edges],
        "blank before the colon": [json.dumps(edge, separators=(", ", " : ")) for edge in edges],
    }
    text = "\n".join(lines[spelling]).encode()
    monkeypatch.setattr(record_explainer, "decode_object", None)

    found = list(read_graph_records(io.BytesIO(text), CATALOG, CountedIds(), name="in"))

    assert sum(part.rows.num_rows for part in found) == 1000


def test_a_bad_line_is_the_only_one_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def counting(line: bytes, inner: str | None = None) -> dict[str, object]:
        seen.append(line)
        return decode_object(line, inner)

    monkeypatch.setattr(record_explainer, "decode_object", counting)

    found = list(
        read_graph_records(
            io.BytesIO(GOOD + BAD + GOOD), TYPED, CountedIds(), name="in", reject=lambda _error, _text: None
        )
    )

    assert sum(part.rows.num_rows for part in found) == 2000
    assert seen == [BAD.rstrip()]


def test_defaults_of_every_type_are_filled_in_either_way() -> None:
    catalog = accepted(
        'node D { a: [I32] @default([1, 2])\n b: Vector(2) @default([0.1, 2])\n c: Blob @default("base64:AA==")\n'
        ' d: Date @default(date("2020-02-29"))\n e: String? @default("x")\n f: [String]?\n g: F32 @default(0.1) }'
    )
    text = b'{"type":"D","id":"1"}\n{"type":"D","id":"2","data":{"a":[],"e":null}}\n{"type":"D","data":{"f":["y"]}}\n'

    found = outcome(text, catalog=catalog)

    assert found == explained_outcome(text, catalog=catalog)
    assert not found.rejected


def test_types_come_in_the_order_of_their_lines_however_each_line_was_read() -> None:
    lines = (
        b'{"type":"Thing","id":"slow  :"}\n'
        b'{"type":"File","id":"quick"}\n'
        b'{"edge":"Knows","from":"a","to":"b"}\n'
        b'{"type":"Thing","id":"quick"}\n'
    )

    found = list(read_graph_records(io.BytesIO(lines), CATALOG, CountedIds(), name="in"))

    assert [part.type.name for part in found] == ["Thing", "File", "Knows"]
    assert found[0].rows["id"].to_pylist() == ["slow  :", "quick"]


# --- JSONL of one type --------------------------------------------------------------------------------


def flat_outcome(path: Path) -> Outcome:
    found = Outcome()
    file = TypedFile(path=path, type=CATALOG.edges["Knows"], columns={"since": "day"})
    for rows, rejected in read_typed_lines(file, CountedIds()):
        found.take(rows)
        for error, text in rejected:
            found.reject(error, text)
    return found


FLAT = [
    b'{"from":"a","to":"b","day":"2020-01-01"}',
    b'{"src":"a","dst":"b"}',
    b'{"from":"a","src":"c","to":"b"}',
    b'{"from":"a","to":"b","dst":null}',
    b'{"from":null,"src":"c","to":"b"}',
    b'{"from":"a","to":"b","day":null}',
    b'{"from":"a","to":"b","since":"2020-01-01"}',
    b'{"from":"a","to":1}',
    b'{"from":"a"}',
    b'{"from":"","to":"b"}',
    b'{"id":"x","from":"a","to":"b"}',
    b"// no",
    b"nonsense",
]


@given(lines=st.lists(st.sampled_from(FLAT), max_size=6))
@settings(max_examples=100)
def test_both_give_the_same_of_a_jsonl_of_one_type(
    lines: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("flat") / "knows.jsonl"
    path.write_bytes(b"\n".join(lines))

    found = flat_outcome(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_decoder, "decode_each", decode_none)
        assert found == flat_outcome(path)
