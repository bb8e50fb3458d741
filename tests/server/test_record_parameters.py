"""Lists of records in requests: what a client sends is what an embedded graph would get."""

from datetime import UTC, datetime

import pandas as pd
import pyarrow as pa

from omnigraph.schema.values import InvalidValue
from omnigraph.server.client.requests import to_json_value

ROWS = [{"name": "a", "age": 1}, {"name": "b", "age": None}]


def test_records_and_tables_are_sent_as_arrays_of_objects() -> None:
    assert to_json_value(ROWS) == ROWS
    assert to_json_value(pd.DataFrame(ROWS)) == ROWS
    assert to_json_value(pa.Table.from_pylist(ROWS)) == ROWS
    assert to_json_value([{"at": datetime(2026, 1, 2, tzinfo=UTC)}]) == [{"at": "2026-01-02T00:00:00Z"}]


def test_a_value_that_no_type_has_is_refused_inside_a_record_too() -> None:
    assert isinstance(to_json_value([{"name": object()}]), InvalidValue)
