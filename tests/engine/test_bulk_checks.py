"""Checks over whole columns find what plain dictionaries find."""

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from load_calls import Record, loaded, source
from mutating import new_graph
from naive_load import Given, Kind, Model, Row
from omnigraph.ops.load import LoadError, LoadInput
from omnigraph.storage.column_hashing import Hashes, PackedTexts
from omnigraph.storage.columnar_sets import are_equal, find_duplicates, find_positions, is_among, rank_in_groups
from omnigraph.storage.string_hash_index import StringHashIndex, iter_hits, iter_with_offsets

SCHEMA = """
node N { k: String @key  u: I64?  v: String?  r: I64  @unique(u) @unique(v, r) }
node M { k: String @key }
edge E: N -> M @card(0..2) { w: I64?  @unique(w) }
edge L: M -> N @card(1..2) { x: I64? }
"""
KINDS = (
    Kind("N", unique=(("u",), ("v", "r")), required=("r",)),
    Kind("M"),
    Kind("E", unique=(("w",),), source="N", target="M", high=2),
    Kind("L", source="M", target="N", low=1, high=2),
)
COMMITTED: dict[str, dict[str, Row]] = {
    "N": {
        "a": {"k": "a", "u": 1, "v": "x", "r": 1},
        "b": {"k": "b", "u": 2, "v": None, "r": 1},
        "c": {"k": "c", "u": None, "v": "x", "r": 2},
    },
    "M": {"p": {"k": "p"}, "q": {"k": "q"}},
    "E": {
        "1": {"src": "a", "dst": "p", "w": 1},
        "2": {"src": "a", "dst": "q", "w": None},
        "3": {"src": "b", "dst": "p", "w": 2},
    },
    "L": {
        "1": {"src": "p", "dst": "a", "x": None},
        "2": {"src": "q", "dst": "b", "x": 1},
        "3": {"src": "q", "dst": "c", "x": 2},
    },
}


def record(kind: str, row_id: str, values: Mapping[str, Any]) -> Record:
    """A record of graph JSONL."""
    if kind in "NM":
        return {"type": kind, "data": {"k": row_id, **{name: value for name, value in values.items() if name != "k"}}}
    data = {name: value for name, value in values.items() if name not in ("src", "dst")}
    return {"edge": kind, "from": values["src"], "to": values["dst"], "id": row_id, "data": data}


@pytest.fixture(scope="module")
def world() -> Iterator[og.Graph]:
    with tempfile.TemporaryDirectory() as directory:
        graph = new_graph(Path(directory), SCHEMA)
        loaded(graph, "append", *(record(kind, k, row) for kind in COMMITTED for k, row in COMMITTED[kind].items()))
        yield graph


FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
maybe = st.none() | st.integers(1, 3)
nodes = st.sampled_from("abcd")
others = st.sampled_from("pqr")


@st.composite
def records(draw: st.DrawFn) -> tuple[str, str, Row]:
    """A record of any type: what it leaves out is not among its values."""
    kind = draw(st.sampled_from("NNMEEL"))
    if kind == "M":
        return kind, draw(others), {}
    if kind == "N":
        row: Row = {"r": draw(st.integers(1, 2)), "u": draw(maybe), "v": draw(st.sampled_from([None, "x", "y"]))}
        return kind, draw(nodes), {name: value for name, value in row.items() if draw(st.integers(0, 2))}
    source, target = (nodes, others) if kind == "E" else (others, nodes)
    ends = {"src": draw(source), "dst": draw(target)}
    name = "w" if kind == "E" else "x"
    return kind, draw(st.sampled_from("1234")), ends | ({name: draw(maybe)} if draw(st.booleans()) else {})


@pytest.mark.parametrize("examples", [60, pytest.param(3_000, marks=[pytest.mark.soak, pytest.mark.timeout(1_200)])])
def test_a_load_refuses_what_dictionaries_refuse(world: og.Graph, examples: int) -> None:
    @settings(FEW, max_examples=examples, derandomize=examples < 100)
    @given(mode=st.sampled_from(["append", "merge", "overwrite"]), drawn=st.lists(records(), max_size=9))
    def check(mode: str, drawn: list[tuple[str, str, Row]]) -> None:
        if mode != "merge":
            drawn = [(kind, k, {"r": 1, **row} if kind == "N" else row) for kind, k, row in drawn]
        given: dict[str, list[Given]] = {}
        for line, (kind, k, row) in enumerate(drawn, 1):
            given.setdefault(kind, []).append(Given(line, k, row))
        expected = Model(KINDS, mode, COMMITTED, given).judge()

        refused, total = verdict(world, mode, [record(*one) for one in drawn])

        assert refused == expected.refused
        assert total == len(expected.refused) + expected.unplaced

    check()


BLANK: dict[str, Row] = {
    "N": {"u": None, "v": None, "r": None},
    "M": {},
    "E": {"src": None, "dst": None, "w": None},
    "L": {"src": None, "dst": None, "x": None},
}
"""What a row says where nothing says anything else."""


def rows_of(graph: og.Graph) -> dict[str, dict[str, Row]]:
    """Every row of a graph, by type and id."""
    out = io.BytesIO()
    graph.export(out)
    found: dict[str, dict[str, Row]] = {name: {} for name in COMMITTED}
    for one in map(json.loads, out.getvalue().splitlines()):
        ends = {"src": one["from"], "dst": one["to"]} if "edge" in one else {}
        data = {name: value for name, value in one["data"].items() if name != "k"}
        found[one.get("type") or one["edge"]][one.get("id") or one["data"]["k"]] = ends | data
    return found


def random_records(dice: Random) -> list[tuple[str, str, Row]]:
    """Records of any types, often at odds with each other and with what is there; or partial ones that are at peace."""
    if dice.random() < 0.4:
        order = enumerate(dice.sample("abcd", 4))
        return [
            ("N", k, _some(dice, {"r": 9 + at, "u": 9 + at, "v": f"v{at}"}, "r" if k == "d" else "")) for at, k in order
        ]
    return [_random_record(dice) for _ in range(dice.randrange(10))]


def _random_record(dice: Random) -> tuple[str, str, Row]:
    kind = dice.choice("NNMEEL")
    if kind == "M":
        return kind, dice.choice("pqr"), {}
    if kind == "N":
        row = {"r": dice.randint(1, 3), "u": dice.choice([None, 1, 2, 3, 4, 5]), "v": dice.choice([None, "x", "y"])}
        return kind, dice.choice("abcdef"), _some(dice, row, "")
    source, target = ("abcd", "pqr") if kind == "E" else ("pqr", "abcd")
    ends = {"src": dice.choice(source), "dst": dice.choice(target)}
    return (
        kind,
        dice.choice("123456"),
        ends | _some(dice, {"w" if kind == "E" else "x": dice.choice([None, 1, 2, 3])}, ""),
    )


def _some(dice: Random, row: Row, always: str) -> Row:
    return {name: value for name, value in row.items() if name in always or dice.random() < 0.6}


@pytest.mark.parametrize("examples", [25, pytest.param(1_500, marks=[pytest.mark.soak, pytest.mark.timeout(1_800)])])
def test_a_load_leaves_what_dictionaries_leave(examples: int, tmp_path: Path) -> None:
    """Rows that are kept in part, records that are set aside, and two files: what is there afterwards, to the value."""
    graph = new_graph(tmp_path, SCHEMA)
    start = [record(kind, k, row) for kind in COMMITTED for k, row in COMMITTED[kind].items()]
    blank = {kind: {k: {**BLANK[kind], **row} for k, row in rows.items()} for kind, rows in COMMITTED.items()}
    for row in (*blank["N"].values(), *blank["M"].values()):
        row.pop("k")

    for seed in range(examples):
        dice = Random(seed)
        mode = dice.choice(["append", "merge", "merge", "overwrite"])
        leaves_out = dice.random() < 0.6
        drawn = random_records(dice)
        cut = dice.randint(0, len(drawn))
        loaded(graph, "overwrite", *start)
        if mode != "merge":
            drawn = [(kind, k, {"r": 1, **row} if kind == "N" else row) for kind, k, row in drawn]
        given: dict[str, list[Given]] = {}
        for line, (kind, k, row) in enumerate(drawn, 1):
            given.setdefault(kind, []).append(Given(line, k, row))
        model = Model(KINDS, mode, blank, given, leaves_out=leaves_out)
        model.judge()
        lines = [record(*one) for one in drawn]
        inputs = LoadInput(graph=(source(*lines[:cut], name="1"), source(*lines[cut:], name="2")))
        kept = Path(tempfile.mkdtemp(dir=tmp_path)) / "kept"

        with suppress(LoadError):
            loaded(graph, mode, inputs=inputs, on_error=kept if leaves_out else None)

        expected = model.result()
        assert rows_of(graph) == {
            kind: {k: {**BLANK[kind], **row} for k, row in rows.items()} for kind, rows in expected.items()
        }, f"seed {seed}: {mode} of {drawn}"
        if leaves_out and kept.exists():
            refused = sorted(model.verdict.refused.items())
            places = [("1", line) if line <= cut else ("2", line - cut) for line, _ in refused]
            told = [json.loads(line) for line in (kept / "reasons.jsonl").read_text().splitlines()]
            assert [(one["file"], one["line"]) for one in told] == places
            assert [one["rule"] for one in told] == [rule for _, rule in refused]
            texts = [json.loads(line) for line in (kept / "rejected.jsonl").read_text().splitlines()]
            assert texts == [lines[line - 1] for line, _ in refused], seed


def verdict(graph: og.Graph, mode: str, lines: list[Record]) -> tuple[dict[int, str], int]:
    """The lines that a load refuses, each with its rule, and how many problems there are in all."""
    try:
        loaded(graph, mode, *lines, is_dry_run=True)
    except LoadError as error:
        return {one.line: one.rule for one in error.problems if one.line is not None}, error.total
    return {}, 0


# --- columns -----------------------------------------------------------------------------------------

texts = st.text(st.sampled_from("ab\0é"), max_size=4) | st.sampled_from(["a" * 64, "a" * 65, "a" * 64 + "b", "b" * 200])
columns = st.lists(texts, max_size=40)


@given(columns, columns)
@FEW
def test_a_set_of_keys_gives_the_first_place_of_each(keys: list[str], values: list[str]) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}

    found = StringHashIndex(pa.array(keys, pa.string())).find_positions(pa.array([*values, None], pa.string()))

    assert found.tolist() == [*(first.get(value, -1) for value in values), -1]


few_keys = st.lists(texts | st.sampled_from(["12345678", "x12345678", "1234567"]), max_size=3)


@given(few_keys, columns)
@FEW
def test_keys_that_are_rarely_asked_for_are_found_all_the_same(keys: list[str], values: list[str]) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    asked = [*values, *keys, "y12345678", "12345679"]

    found = StringHashIndex(pa.array(keys, pa.string()), is_rarely_hit=True).find_positions(
        pa.array(asked, pa.string())
    )

    assert found.tolist() == [first.get(value, -1) for value in asked]


@pytest.mark.parametrize("is_rarely_hit", [False, True])
def test_keys_are_found_in_every_block_of_a_long_column(is_rarely_hit: bool) -> None:
    names = [None if number % 1000 == 7 else f"n{number}" for number in range(100_000)]
    keys = pa.array([f"n{number}" for number in range(0, 120_000, 997)])
    wanted = [-1 if name is None or int(name[1:]) % 997 else int(name[1:]) // 997 for name in names[5:]]

    found = StringHashIndex(keys, is_rarely_hit=is_rarely_hit).find_positions(pa.array(names).slice(5))

    assert found.tolist() == wanted


@pytest.mark.parametrize("is_rarely_hit", [False, True])
def test_the_hits_of_every_column_come_in_turn(is_rarely_hit: bool) -> None:
    keys = StringHashIndex(pa.array([f"n{number}" for number in range(0, 500, 3)]), is_rarely_hit=is_rarely_hit)
    given = [pa.array([f"n{first + number}" for number in range(7)]) for first in range(0, 300, 7)]

    found = list(iter_hits(iter_with_offsets(iter(given)), keys))

    assert [one.mark for one in found] == list(range(0, 300, 7))
    assert [one.column for one in found] == given
    numbers = [(one.mark + one.rows).tolist() for one in found]
    assert numbers == [[number for number in range(first, first + 7) if number % 3 == 0] for first in range(0, 300, 7)]
    assert [one.key_positions.tolist() for one in found] == [[number // 3 for number in part] for part in numbers]


@pytest.mark.parametrize("size", range(21))
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_keys_that_are_all_as_long_are_found(size: int, type_: pa.DataType) -> None:
    words = ["".join(letters) for letters in product("ab", repeat=min(size, 5))]
    texts = [("-" * size + word)[-size:] if size else "" for word in words]
    texts += [text[::-1] for text in texts]
    keys = list(dict.fromkeys(texts[::2]))
    wanted = [keys.index(text) if text in keys else -1 for text in texts[3:]]

    for is_rarely_hit in (False, True):
        column = pa.array(texts, type_).slice(3)
        assert (
            StringHashIndex(pa.array(keys, type_), is_rarely_hit=is_rarely_hit).find_positions(column).tolist()
            == wanted
        )


@given(few_keys, columns)
@FEW
def test_keys_are_told_apart_even_when_all_texts_end_alike(keys: list[str], values: list[str]) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "omnigraph.storage.column_hashing.PackedTexts.hash_ends", lambda own: np.zeros(len(own.column), np.uint64)
        )

        found = StringHashIndex(pa.array(keys, pa.string()), is_rarely_hit=True).find_positions(
            pa.array(values, pa.string())
        )

    assert found.tolist() == [first.get(value, -1) for value in values]


@given(columns, columns)
@FEW
def test_keys_are_told_apart_even_when_all_have_one_hash(keys: list[str], values: list[str]) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "omnigraph.storage.column_hashing.PackedTexts.compute_hashes",
            lambda own: np.zeros(len(own.column), np.uint64),
        )

        found = StringHashIndex(pa.array(keys, pa.string())).find_positions(pa.array(values, pa.string()))

    assert found.tolist() == [first.get(value, -1) for value in values]


@given(columns, columns)
@FEW
def test_keys_are_told_apart_even_when_their_slots_can_not_tell(keys: list[str], values: list[str]) -> None:
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    numbers: dict[str, int] = {}

    def hashes(own: PackedTexts) -> Hashes:
        """One for each text, that differ neither in the bits that choose a slot nor in those that a slot keeps."""
        found = [numbers.setdefault(text, len(numbers)) for text in own.column.to_pylist()]
        return np.array(found, np.uint64) << np.uint64(33)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omnigraph.storage.column_hashing.PackedTexts.compute_hashes", hashes)

        found = StringHashIndex(pa.array(keys, pa.string())).find_positions(pa.array(values, pa.string()))

    assert found.tolist() == [first.get(value, -1) for value in values]


@given(columns, st.data())
@FEW
def test_repeats_are_the_later_of_equal_rows(left: list[str], data: st.DataObject) -> None:
    right = data.draw(st.lists(st.integers(0, 2), min_size=len(left), max_size=len(left)))
    pairs = list(zip(left, right, strict=True))
    expected = [(at, pairs.index(pair)) for at, pair in enumerate(pairs) if pairs.index(pair) < at]

    later, first = find_duplicates([pa.array(left, pa.string()), pa.array(right, pa.int32())])

    assert list(zip(later.tolist(), first.tolist(), strict=True)) == expected


@given(st.lists(st.integers(-5, 5), max_size=30), st.booleans())
@FEW
def test_repeats_are_found_in_numbers_of_any_kind(values: list[int], is_sorted: bool) -> None:
    values = sorted(values) if is_sorted else values
    for type_ in (pa.int32(), pa.int64(), pa.float64(), pa.float32(), pa.date32(), pa.timestamp("us", "UTC")):
        column = pa.array(values, pa.int32() if type_ == pa.date32() else pa.int64())

        later, _ = find_duplicates([column.cast(type_)])

        assert later.tolist() == [at for at, value in enumerate(values) if value in values[:at]]


@given(columns, columns)
@FEW
@pytest.mark.parametrize("small", [0, 50_000])
def test_membership_is_the_same_by_look_up_and_by_join(small: int, values: list[str], others: list[str]) -> None:
    once = list(dict.fromkeys(others))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omnigraph.storage.columnar_sets.MAX_SINGLE_THREAD_VALUES", small)

        mask = is_among(pa.array(values, pa.string()), pa.array(others, pa.string()))
        places = find_positions(pa.array(values, pa.string()), pa.array(once, pa.string()))

    assert mask.tolist() == [value in others for value in values]
    assert places.tolist() == [once.index(value) if value in once else -1 for value in values]


@given(st.lists(st.integers(0, 4), max_size=40))
@FEW
def test_ranks_count_the_earlier_rows_of_a_group(groups: list[int]) -> None:
    assert rank_in_groups(np.array(groups, np.int64)).tolist() == [
        groups[:at].count(group) for at, group in enumerate(groups)
    ]


@pytest.mark.parametrize(
    "type_, values",
    [
        (pa.string(), st.none() | st.sampled_from(["", "a", "b"])),
        (pa.float64(), st.none() | st.sampled_from([0.0, 1.5])),
        (pa.bool_(), st.none() | st.booleans()),
        (pa.large_binary(), st.none() | st.sampled_from([b"", b"a"])),
        (pa.list_(pa.string()), st.none() | st.lists(st.sampled_from(["", "a"]), max_size=2)),
        (pa.list_(pa.float32(), 2), st.none() | st.lists(st.sampled_from([0.0, 0.5]), min_size=2, max_size=2)),
    ],
)
@given(data=st.data())
@FEW
def test_rows_are_equal_when_they_say_the_same(
    type_: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(values, values), max_size=20))
    start = data.draw(st.integers(0, 3))
    one, other = (pa.array([None] * start + [pair[side] for pair in pairs], type_).slice(start) for side in (0, 1))

    assert are_equal(one, other).tolist() == [left == right for left, right in pairs]


def test_a_zero_of_the_other_sign_is_another_value() -> None:
    assert are_equal(pa.array([0.0, -0.0]), pa.array([-0.0, -0.0])).tolist() == [False, True]
