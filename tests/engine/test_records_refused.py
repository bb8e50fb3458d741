"""Graph JSONL: what is refused, and what is said of it."""

import json

import pytest

from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.errors import Kind
from record_reading import NO_BLOBS, read, refusals


def thing(name: str, value: str) -> str:
    return f'{{"type":"Thing","id":"x","data":{{"{name}":{value}}}}}'


VALUES = [
    ("text", "1", "expected a string, got 1"),
    ("text", "[]", "expected a string, got a list of 0 items"),
    ("text", '"a\\ud800b"', "the string has half of a surrogate pair at character 2, which is not valid text"),
    ("flag", "1", "expected true or false, got 1"),
    ("flag", '"true"', 'expected true or false, got "true"'),
    ("i32", "2147483648", "expected a whole number from -2147483648 to 2147483647, got 2147483648"),
    ("i32", "1.0", "expected a whole number from -2147483648 to 2147483647, got 1.0"),
    ("i32", "true", "expected a whole number from -2147483648 to 2147483647, got true"),
    ("i32", '"1"', 'expected a whole number from -2147483648 to 2147483647, got "1"'),
    ("u32", "-1", "expected a whole number from 0 to 4294967295, got -1"),
    (
        "i64",
        "9223372036854775808",
        "expected a whole number from -9223372036854775808 to 9223372036854775807, got 9223372036854775808",
    ),
    (
        "i64",
        '"-9223372036854775809"',
        "expected a whole number from -9223372036854775808 to 9223372036854775807, got -9223372036854775809",
    ),
    (
        "i64",
        "-9223372036854775809",
        "expected a whole number from -9223372036854775808 to 9223372036854775807, got -9223372036854775809",
    ),
    ("u64", "-1", "expected a whole number from 0 to 18446744073709551615, got -1"),
    ("u64", '"1e3"', 'expected a whole number from 0 to 18446744073709551615, got "1e3"'),
    ("u64", "18446744073709551616", "expected a whole number from 0 to 18446744073709551615, got 18446744073709551616"),
    ("f32", "1e39", "1e+39 is too large for F32"),
    ("f32", "16777217", "16777217 can't be held exactly by F32: write a fraction if rounding is meant"),
    ("f64", "9007199254740993", "9007199254740993 can't be held exactly by F64: write a fraction if rounding is meant"),
    ("f64", '"1.5"', 'expected a number, got "1.5"'),
    ("day", '"2026-02-30"', '"2026-02-30" is not a day of the calendar (years 0001 to 9999)'),
    ("day", '"0000-01-01"', '"0000-01-01" is not a day of the calendar (years 0001 to 9999)'),
    ("day", '"2026-01-02\\n"', 'expected a date "YYYY-MM-DD", got "2026-01-02\\n"'),
    ("day", "20260101", 'expected a date "YYYY-MM-DD", got 20260101'),
    (
        "seen",
        '"2026-01-02T03:04:60Z"',
        '"2026-01-02T03:04:60Z" is a leap second, which a DateTime can\'t represent',
    ),
    (
        "seen",
        '"2026-01-02T03:04:05"',
        'expected a time with its zone, such as "2026-01-02T03:04:05Z", got "2026-01-02T03:04:05"; it has no zone',
    ),
    ("vec", "[1.0,2.0]", "expected a list of 3 numbers, got 2"),
    ("vec", "[1.0,2.0,null]", "item 3: expected a number, got null"),
    ("vec", "[1.0,2.0,1e39]", "item 3: 1e+39 is too large for F32"),
    ("tags", '["a",null]', "item 2: expected a string, got null"),
    (
        "tags",
        '["a","\\udc00"]',
        "item 2: the string has half of a surrogate pair at character 1, which is not valid text",
    ),
    ("tags", '"a"', 'expected a list of String, got "a"'),
    (
        "nums",
        "[[1]]",
        "item 1: expected a whole number from -9223372036854775808 to 9223372036854775807, got a list of 1 item",
    ),
]


@pytest.mark.parametrize("name, value, reason", VALUES)
def test_a_value_that_does_not_fit_is_refused(name: str, value: str, reason: str) -> None:
    good = thing("text", '"fine"')

    (error,) = refusals(good, thing(name, value), good)

    assert (error.file, error.line, error.type, error.property) == ("in.jsonl", 2, "Thing", name)
    assert error.reason == reason
    assert error.value is not None
    assert len(error.value) < 100


LINES = [
    ("nonsense", "the line is not JSON: Expecting value at character 1"),
    ('{"type":"Person","data":{"name":"a"', "the JSON ends before it is complete"),
    ('{"type":"Person","data":{"name":"a', "the JSON ends before it is complete"),
    ('{"type":"File"} {}', "the line is not JSON: Extra data at character 17"),
    (b'{"type":"\xff"}', "the line is not UTF-8: byte 0xff at offset 9; save it as UTF-8"),
    ('{"type":"Person","data":{"name":"a\\', "the JSON ends before it is complete"),
    ('{"type":"Person","data":{"name":"a\\u12"}}', "the line is not JSON: Invalid \\uXXXX escape at character 36"),
    (b'{"type":"Person"}\x00', "the line is not JSON: Extra data at character 18"),
    (
        b'{"type":"Person","data":{"name":"a\x01"}}',
        "the line is not JSON: Invalid control character at character 35",
    ),
    (
        '{"type":"File","id":"\\ud800"}',
        "the string has half of a surrogate pair at character 1, which is not valid text",
    ),
    ('{"type":"Person","data":{"na\\ud800me":1}}', 'unknown property "na\\ud800me" of `Person`; did you mean `name`?'),
    ('{"type":"Thing","data":{"text":{"a":{"b":1,"b":2}}}}', 'the key "b" is there twice'),
    ("[1]", "expected an object, got a list of 1 item"),
    ('{"type":"Person","data":{"name":"a","name":"b"}}', 'the key "name" is there twice'),
    ('{"type":"Person","type":"Person","data":{"name":"a"}}', 'the key "type" is there twice'),
    ('{"type":"Person","data":{"name" :"a","name": "b"}}', 'the key "name" is there twice'),
    ('{"type":"Person","data":{"name":"a:b","na\\u006de":"c"}}', 'the key "name" is there twice'),
    ('{"type":"Thing","data":{"f64":NaN}}', "NaN is not a JSON number"),
    ('{"type":"Thing","data":{"f64":-Infinity}}', "-Infinity is not a JSON number"),
    ('{"type":"Thing","data":{"f64":1e400}}', "the number 1e400 is too large for any type"),
    ('{"type":"Thing","data":{"vec":' + "[" * 5000 + "]" * 5000 + "}}", "the JSON is nested too deeply"),
    ('{"data":{}}', "a record has exactly one of `type` (a node) and `edge`"),
    ('{"type":"Person","edge":"Knows"}', "a record has exactly one of `type` (a node) and `edge`"),
    ('{"type":"Persn"}', 'unknown node type "Persn"; did you mean `Person`?'),
    ('{"type":"person"}', 'unknown node type "person"; did you mean `Person`?'),
    ('{"type":["Person"]}', "the name of a node type is a string, not a list of 1 item"),
    ('{"type":"Knows"}', "`Knows` is an edge type; write `edge`, `from` and `to`"),
    ('{"edge":"Person"}', "`Person` is a node type; write `type`"),
    ('{"edge":"Knowz","from":"a","to":"b"}', 'unknown edge type "Knowz"; did you mean `Knows`?'),
    ('{"type":"Person","dat":{"name":"a"}}', 'a node has no field "dat"; did you mean `data`?'),
    ('{"type":"Person","name":"a"}', 'a node has no field "name"; properties go into `data`'),
    ('{"type":"File","from":"a"}', 'a node has no field "from"'),
    ('{"type":"Person","data":null}', "`data` is an object of properties, not null"),
    ('{"type":"Person","data":{"name":"a","agee":1}}', 'unknown property "agee" of `Person`; did you mean `age`?'),
    ('{"type":"Person"}', "a value is required: a string"),
    ('{"type":"Person","data":{"name":null}}', "expected a string, got null"),
    (
        '{"type":"Person","data":{"name":"a","level":null}}',
        "expected a whole number from -9223372036854775808 to 9223372036854775807, got null",
    ),
    ('{"type":"Person","data":{"name":"a","mood":"Sad"}}', 'expected one of happy, sad, got "Sad"'),
    ('{"type":"Person","data":{"name":""}}', "the key is empty, and the id is made of it"),
    (
        '{"type":"Person","id":"b","data":{"name":"a"}}',
        'the id "b" does not agree with the key (name), which makes it "a"',
    ),
    ('{"type":"File","id":7}', "expected a string, got 7"),
    ('{"type":"File","id":null}', "expected a string, got null"),
    ('{"type":"File","id":""}', "an id is not empty"),
    ('{"type":"File","data":{"body":"base64:A"}}', "the text after `base64:` is not base64 with its padding"),
    (
        '{"type":"File","data":{"body":"file:///etc/passwd"}}',
        (
            "can't read the blob `file:///etc/passwd`: it is below none of the places that the settings of this graph"
            " allow (OMNIGRAPH_BLOB_SOURCES)"
        ),
    ),
    ('{"edge":"Knows","from":"a"}', "an edge needs `to`, the id of a node"),
    ('{"edge":"Knows","from":1,"to":"b"}', "expected a string, got 1"),
    ('{"edge":"Knows","from":"a","to":""}', "an id is not empty"),
    (
        '{"edge":"Likes","from":"a","to":"b","id":"c"}',
        'the id "c" does not agree with the key (from, to), which makes it "[\\"a\\",\\"b\\"]"',
    ),
]


@pytest.mark.parametrize("line, reason", LINES, ids=[str(number) for number in range(len(LINES))])
def test_a_line_that_is_no_record_is_refused(line: str | bytes, reason: str) -> None:
    (error,) = refusals('{"type":"File"}', line, '{"type":"File","id":"good"}')

    assert (error.line, error.reason) == (2, reason)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400"])
@pytest.mark.parametrize("name, text", [("f64", "{}"), ("vec", "[1, {}, 2]")])
def test_a_number_that_is_none_is_told_with_its_type_and_property(name: str, text: str, value: str) -> None:
    line = f'{{"type":"Thing","data":{{"i32":1,"{name}":{text.format(value)}}}}}'

    (refused,) = refusals(line)

    assert (refused.type, refused.property, refused.value) == ("Thing", name, value)


def test_a_number_that_is_none_in_a_line_with_another_fault_is_told_alone() -> None:
    (refused,) = refusals('{"type":"Thing","data":{"f64":NaN}')

    assert (refused.type, refused.property, refused.value) == (None, None, "NaN")


def test_a_line_of_10_megabytes_is_refused() -> None:
    line = '{"type":"Person","data":{"name":"' + "x" * 10_000_000 + '"}}'

    (error,) = refusals(line, '{"type":"Person","data":{"name":"a"}}', catalog=NO_BLOBS)

    assert (error.line, error.reason) == (1, "the line has more than 8388608 bytes, the limit of a record")


def test_a_number_of_many_digits_is_refused_before_it_is_made() -> None:
    (error,) = refusals('{"type":"Thing","data":{"i64":' + "9" * 1_000_000 + "}}")

    assert error.line == 1
    assert len(str(error)) < 300


def test_the_first_bad_record_stops_the_read_and_says_where() -> None:
    with pytest.raises(RecordError) as refused:
        read('{"type":"Person","data":{"name":"a","age":"x"}}', "nonsense")

    assert refused.value.kind is Kind.INVALID
    assert str(refused.value) == (
        'in.jsonl, line 1: `Person.age`: expected a whole number from -2147483648 to 2147483647, got "x"'
    )


def test_equal_keys_at_different_depths_are_not_double() -> None:
    (error,) = refusals('{"type":"Thing","id":"a","data":{"text":{"text":"a"}}}')

    assert error.reason == "expected a string, got an object"


@pytest.mark.parametrize("text", ['"a":', '": :"', "\\", ':":":', '{"a":1,"a":2}'])
def test_text_that_looks_like_keys_is_text(text: str) -> None:
    line = json.dumps({"type": "Person", "data": {"name": text}})

    (found,) = read(line)

    assert found.rows["name"].to_pylist() == [text]


def test_a_value_is_told_of_its_own_line_though_the_line_before_is_read_another_way() -> None:
    """The first line is left to the explainer, so that its row comes behind the second one's at first."""
    (error,) = refusals(
        '{"type":"Thing","id":"a","data":{"text":"looks like a key  :"}}',
        '{"type":"Thing","id":"b","data":{"day":"2023-02-29"}}',
        '{"type":"Thing","id":"c","data":{"day":"2024-02-29"}}',
    )

    assert (error.line, error.property, error.value) == (2, "day", '"2023-02-29"')
