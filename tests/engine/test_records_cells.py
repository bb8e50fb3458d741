"""CSV cells: whole columns and single cells agree."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.decoding.csv_columns import _decode_json, decode_cells
from omnigraph.schema.types import Scalar
from record_lines import NUMBERS, VALUES
from record_reading import CATALOG

PROPERTIES = {p.name: p for p in CATALOG.nodes["Thing"].properties}
BY_JSON = [p.name for p in PROPERTIES.values() if p.type not in (Scalar.STRING, Scalar.DATE, Scalar.DATETIME)]
PLAIN = {
    "flag": st.sampled_from(["true", "false"]),
    "vec": st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3).map(str),
    "tags": st.sampled_from(['["a"]', "[]", '["é", ""]']),
    "nums": st.sampled_from(["[1]", "[]", "[1, -2]"]),
    "days": st.sampled_from(['["2020-01-01"]', "[]"]),
}


@pytest.mark.parametrize("name", BY_JSON)
@given(data=st.data())
@settings(max_examples=40)
def test_a_column_of_cells_is_what_its_cells_are(name: str, data: st.DataObject) -> None:
    p = PROPERTIES[name]
    plain = PLAIN.get(name, st.one_of(NUMBERS, st.integers(0, 9).map(str)))
    odd = st.one_of(VALUES, st.sampled_from(["", " 1", "1 ", "1\n", "TRUE", '1}\n{"v":2', '1,"v":2', "[1]\n", "null"]))
    cells = data.draw(st.lists(st.one_of(plain, plain, plain, odd), max_size=5))
    cells = [cell for cell in cells if cell.isprintable() or "\n" in cell]

    quick = decode_cells(p, pa.array([cell.encode() for cell in cells], pa.binary()))

    strict = _decode_json(p, pa.array([cell or None for cell in cells], pa.utf8()))
    assert quick.misfits == strict.misfits
    assert repr(quick.array.to_pylist()) == repr(strict.array.to_pylist())
