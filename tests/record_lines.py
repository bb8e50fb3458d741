"""Lines of graph JSONL at random: right, nearly right, and made to mislead."""

import base64
import json

from hypothesis import strategies as st

TEXTS = st.one_of(
    st.sampled_from(
        [
            "",
            "a",
            "null",
            "a null",
            ": null",
            '"age": null',
            '"age":null,"x":"',
            "é",
            "😀",
            "\x00",
            "\n",
            "}",
            "{",
            '{"type":"Person"}',
        ]
    ),
    st.text(max_size=6),
)
NUMBERS = st.one_of(
    st.sampled_from(
        [
            "0",
            "-0",
            "-0.0",
            "0.0",
            "1",
            "1.0",
            "1e2",
            "1E-2",
            "1e400",
            "-1e-400",
            "01",
            "+1",
            ".5",
            "1.",
            "-",
            "0x1",
            "NaN",
            "-NaN",
        ]
    ),
    st.sampled_from(["Inf", "Infinity", "-Infinity", "nan", "16777216", "16777217", "16777217.5", "9007199254740992"]),
    st.sampled_from(
        ["9007199254740993", "9007199254740993.0", "2147483647", "2147483648", "-2147483649", "4294967296"]
    ),
    st.sampled_from(["9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616"]),
    st.sampled_from(
        ["1" * 50, "0." + "1" * 40, "1e39", "3.4028235677973366e38", "1" * 500, "0.1", "1e-46", "1_0", "١"]
    ),
    st.integers().map(str),
    st.floats().map(repr),
)
STRINGS = st.one_of(
    TEXTS.map(json.dumps),
    TEXTS.map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [
            r'"\ud800"',
            r'"\udc00"',
            r'"\ud83d\ude00"',
            r'"\ud83dx"',
            r'"\x"',
            r'"\/"',
            r'"\u0000"',
            r'"\u00"',
            '"a',
            "'a'",
            '"\t"',
        ]
    ),
    st.sampled_from(
        ['"2024-02-29"', '"2023-02-29"', '"0000-01-01"', '"2024-2-29"', '"2024-02-29 "', '"9999-12-31"', '"-001-01-01"']
    ),
    st.sampled_from(
        [
            '"2024-02-29T01:02:03Z"',
            '"2024-02-29T01:02:03.5Z"',
            '"2024-02-29T01:02:03.123456Z"',
            '"2024-02-29t01:02:03z"',
        ]
    ),
    st.sampled_from(
        [
            '"2024-02-29T24:00:00Z"',
            '"2024-02-29T23:59:60Z"',
            '"0001-01-01T00:00:00+01:00"',
            '"2024-02-29T01:02:03.123Z"',
        ]
    ),
    st.sampled_from(
        ['"12"', '"-9223372036854775808"', '"base64:AAH/"', '"base64:A"', '"file:///x"', '"happy"', '"Sad"', '"a:b"']
    ),
)
SCALARS = st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "false", "True", "nul", "None", ""]))
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=4).map(lambda items: "[" + ", ".join(items) + "]"),
    st.sampled_from(
        ["{}", '{"a":1}', "[[1]]", "[1,2,3]", "[0.5,-0.0,1]", "[1,null,3]", "[,]", "[1,]", "[" * 50 + "]" * 50]
    ),
)
FITTING = {
    "name": st.sampled_from(['"a"', '"b"', r'"\u00e9"', '"\\"q\\""']),
    "age": st.integers(-5, 5).map(str),
    "mood": st.sampled_from(['"happy"', '"sad"']),
    "level": st.integers(-(2**63), 2**63 - 1).map(str),
    "text": TEXTS.map(json.dumps),
    "flag": st.sampled_from(["true", "false"]),
    "i32": st.integers(-(2**31), 2**31 - 1).map(str),
    "u64": st.integers(0, 2**64 - 1).map(str),
    "f32": st.floats(-100, 100, width=32).map(repr),
    "f64": st.floats(-1e6, 1e6).map(repr),
    "day": st.dates().map(lambda day: f'"{day.isoformat()}"'),
    "seen": st.datetimes().map(lambda instant: f'"{instant.isoformat()}Z"'),
    "vec": st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3).map(json.dumps),
    "tags": st.lists(TEXTS, max_size=3).map(json.dumps),
    "nums": st.lists(st.integers(-5, 2**40), max_size=3).map(json.dumps),
    "days": st.lists(st.dates().map(str), max_size=2).map(json.dumps),
    "since": st.dates().map(lambda day: f'"{day.isoformat()}"'),
    "weight": st.floats(-1e6, 1e6).map(repr),
    "body": st.binary(max_size=5).map(lambda data: f'"base64:{base64.b64encode(data).decode()}"'),
}
_FLOATS = st.sampled_from(
    [
        "-0",
        "-0.0",
        "0",
        "1",
        "16777216",
        "16777217",
        "16777217.5",
        "9007199254740993",
        "1e5",
        "NaN",
        "-Infinity",
        "1e-46",
        "1e39",
    ]
)
_INTEGERS = st.sampled_from(
    ["-0", "1.0", "1e2", "NaN", "2147483648", "-1", "9223372036854775808", '"12"', "true", "01"]
)
_LISTS = st.sampled_from(
    ["[]", "[null]", "[1, null]", "[-0, 1, 2]", "[1,2]", "[1,2,16777217]", "[NaN,1,2]", '["a", null]', '["2023-02-29"]']
)
NEARLY = {
    **dict.fromkeys(("f32", "f64", "weight"), _FLOATS),
    **dict.fromkeys(("age", "level", "i32", "u64", "count"), _INTEGERS),
    **dict.fromkeys(("vec", "tags", "nums", "days"), _LISTS),
}
"""Values that are likely to be taken for right."""
PROPERTIES = {
    "Person": ["name", "age", "mood", "level"],
    "Thing": ["text", "flag", "i32", "u64", "f32", "f64", "day", "seen", "vec", "tags", "nums", "days"],
    "File": ["body"],
    "Visit": ["day", "at", "count"],
    "Knows": ["since"],
    "Likes": ["weight"],
}
_DAYS = st.integers(-720_000, 2_933_000).map(str) | st.sampled_from(['"2024-02-29"', "null", "1.0", "true"])
_TIMES = st.datetimes().map(lambda instant: f'"{instant.isoformat()}"') | st.sampled_from(['"2024-02-29T01:02:03Z"'])
_OLDER = {
    **dict.fromkeys(("day", "since"), _DAYS),
    "days": st.lists(_DAYS, max_size=2).map(lambda items: "[" + ",".join(items) + "]") | st.just("null"),
    **dict.fromkeys(("seen", "at"), _TIMES),
}
"""Values as the older system spelt them."""
FITTING["at"], FITTING["count"] = FITTING["seen"], FITTING["age"]
EDGES = ("Knows", "Likes")


@st.composite
def pairs(draw: st.DrawFn, type_name: str, *, is_wild: bool) -> list[tuple[str, str]]:
    """Names and texts of values of some properties of a type."""
    known = PROPERTIES[type_name]
    names = draw(st.lists(st.sampled_from(known), unique=not is_wild or draw(st.booleans()), max_size=len(known)))
    if not is_wild:
        names = list(dict.fromkeys([*known[: 3 if type_name == "Visit" else 1], *names]))
    found: list[tuple[str, str]] = []
    for name in names:
        value = draw(VALUES if is_wild and draw(st.booleans()) else FITTING[name])
        match draw(st.integers(0, 11)):
            case 0 | 1:
                value = "null"
            case 2:
                value = draw(NEARLY.get(name, STRINGS))
        if is_wild and draw(st.integers(0, 9)) == 0:
            odd = draw(st.sampled_from(["id", "agee", "na\\u006de", "a\\ud800", "type", "data", "\\u0061ge", ""]))
            found.append((odd, value))
        else:
            found.append((name, value))
    return found


@st.composite
def records(draw: st.DrawFn, *, is_wild: bool) -> bytes:
    """One record, written somehow."""
    type_name = draw(st.sampled_from(list(PROPERTIES)))
    colon, comma = draw(
        st.sampled_from([(":", ","), (": ", ", "), (":", ",")] + ([(" :", " ,"), (":\t", ",\r")] if is_wild else []))
    )
    inner = draw(pairs(type_name, is_wild=is_wild))
    is_older = draw(st.integers(0, 3)) == 0
    if is_older:
        inner = [*((name, draw(_OLDER.get(name, st.just(value)))) for name, value in inner)]
        inner.insert(draw(st.integers(0, len(inner))), ("id", draw(st.sampled_from(['"a"', '"b"', "null", "7"]))))
    data = comma.join(f'"{name}"{colon}{value}' for name, value in inner)
    is_edge = type_name in EDGES
    shown = draw(st.sampled_from([type_name, type_name, type_name.upper()])) if is_edge else type_name
    fields = [("edge" if is_edge else "type", f'"{shown}"')]
    ids = STRINGS | st.just("null") | st.just("1") if is_wild else st.sampled_from(['"a"', '"b"', '"x\\"y"', '"é"'])
    if is_edge:
        fields += [("from", draw(ids)), ("to", draw(ids))]
    if (not is_older or is_wild) and draw(st.booleans()) and (is_wild or type_name in {"Thing", "File", "Knows"}):
        fields.insert(draw(st.integers(0 if is_wild else 1, len(fields))), ("id", draw(ids)))
    if data or draw(st.booleans()):
        fields.append(
            ("data", draw(st.sampled_from(["null", "[]", "{}"])) if is_wild and not data else "{" + data + "}")
        )
    if is_wild and draw(st.integers(0, 7)) == 0:
        fields.append(draw(st.sampled_from(fields)))
    if is_wild and draw(st.integers(0, 7)) == 0:
        fields = draw(st.permutations(fields))
    text = "{" + comma.join(f'"{name}"{colon}{value}' for name, value in fields) + "}"
    return text.encode("utf-8", "surrogatepass") + draw(st.sampled_from([b"", b"", b"\r", b" "] if is_wild else [b""]))


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """A record with a few bytes changed, cut or added; also across lines."""
    line = bytearray(draw(records(is_wild=draw(st.booleans()))))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(line) - 1)))
        match draw(st.sampled_from(["cut", "put", "drop", "join", "break"])):
            case "cut":
                line = line[:place]
            case "put":
                line[place:place] = draw(
                    st.sampled_from(
                        [
                            b'"',
                            b"{",
                            b"}",
                            b"\\",
                            b"\x00",
                            b"\xff",
                            b"\xed\xb0\x80",
                            b" ",
                            b",",
                            b"null",
                            b":null",
                            b"\xc0\x80",
                        ]
                    )
                )
            case "drop":
                del line[place : place + draw(st.integers(1, 4))]
            case "join":
                line += draw(records(is_wild=False))
            case _:
                line[place:place] = b"\n"
    return bytes(line)


LINES = st.one_of(
    records(is_wild=False),
    records(is_wild=False),
    records(is_wild=True),
    mangled(),
    st.sampled_from(
        [
            b"",
            b"// no",
            b"  ",
            b"[1]",
            b"nonsense",
            b'{"type":"Nope"}',
            b'{"type":"Person"}{"type":"Person"}',
            b"{",
            b"\xef\xbb\xbf{}",
        ]
    ),
)
