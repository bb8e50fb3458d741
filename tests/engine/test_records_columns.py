"""Whole columns and single values agree: the fast way takes exactly what the careful way takes."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.decoding.json_columns import decode_json_column
from omnigraph.schema.arrow import to_arrow_type
from omnigraph.schema.values import InvalidValue, format_value, from_json
from record_reading import CATALOG

TYPES = {p.name: p.type for p in (*CATALOG.nodes["Thing"].properties, CATALOG.nodes["Person"].by_name["mood"])}
SCALARS: st.SearchStrategy[object] = st.one_of(
    st.booleans(),
    st.sampled_from(
        [0, 1, -1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63)]
    ),
    st.integers(),
    st.floats(),
    st.sampled_from([0.1, -0.0, 1e39, 3.4028235677973366e38, 1e-50]),
    st.sampled_from(
        ["happy", "Sad", "", "1", "-9223372036854775808", "a\ud800", "2024-02-29", "2023-02-29", "0000-01-01"]
    ),
    st.sampled_from(
        ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1234567Z", "0001-01-01T00:00:00+01:00", "9999-12-31"]
    ),
    st.sampled_from(
        ["2026-01-02T24:00:00Z", "2026-01-02t03:04:05z", "2026-1-2", "2026-01-02 03:04:05Z", "2024-02-29\n"]
    ),
    st.text(max_size=4),
)
VALUES = st.one_of(st.none(), SCALARS, st.lists(st.none() | SCALARS, max_size=4), st.just({}))


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
@settings(max_examples=30)
def test_a_column_is_what_its_values_are(name: str, data: st.DataObject) -> None:
    type_ = TYPES[name]
    kind = data.draw(st.sampled_from(["any", "int", "float", "lists", "str"]))
    narrow: dict[str, st.SearchStrategy[object]] = {
        "any": VALUES,
        "int": st.integers(-(2**64), 2**65),
        "float": st.floats(width=32) | st.floats(),
        "lists": st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3),
        "str": SCALARS.filter(lambda value: isinstance(value, str)),
    }
    values = data.draw(st.lists(narrow[kind], max_size=4))

    column = decode_json_column(type_, values)

    each = [None if value is None else from_json(type_, value) for value in values]
    misfits = {
        row: (format_value(values[row]), value.reason)
        for row, value in enumerate(each)
        if isinstance(value, InvalidValue)
    }
    fitting = [None if isinstance(value, InvalidValue) else value for value in each]
    assert column.misfits == misfits
    assert repr(column.array.to_pylist()) == repr(pa.array(fitting, to_arrow_type(type_)).to_pylist())
