"""`export | load` gives the same graph: any values, blobs too, byte for byte."""

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.schema.arrow import build_arrow_schema
from record_reading import CATALOG, SCHEMA
from record_values import BLOBS, THINGS
from worlds import runtime

PEOPLE = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.text(min_size=1, max_size=6),
            "age": st.none() | st.integers(-(2**31), 2**31 - 1),
            "mood": st.sampled_from([None, "sad", "happy"]),
            "level": st.sampled_from([-(2**63), -(2**53) - 1, 0, 2**53 + 1, 2**63 - 1]),
        }
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row["name"],
)


def put(graph: og.Graph, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Rows as they are, in one commit."""
    writes = []
    for name, its in rows.items():
        type_ = CATALOG.find_type(name)
        assert type_ is not None
        table = pa.Table.from_pylist(its, schema=build_arrow_schema(type_))
        writes.append(TableWrite(table_key=type_.table_key, append=table))
    write_tables(graph._session, writes, operation="put", actor="ada")


def exported(graph: og.Graph) -> bytes:
    out = io.BytesIO()
    graph.export(out)
    return out.getvalue()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty graph, to copy."""
    place = tmp_path_factory.mktemp("round") / "g"
    og.create_graph(str(place), SCHEMA, runtime=runtime())
    return place


@pytest.mark.parametrize(
    "examples",
    [pytest.param(12, id="some"), pytest.param(500, id="many", marks=[pytest.mark.soak, pytest.mark.timeout(3600)])],
)
def test_what_was_exported_is_loaded_as_it_was(template: Path, examples: int) -> None:
    @settings(max_examples=examples, derandomize=examples < 100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        people=PEOPLE, things=THINGS, blobs=BLOBS, pairs=st.lists(st.tuples(st.integers(), st.integers()), max_size=4)
    )
    def check(
        people: list[dict[str, Any]],
        things: list[dict[str, Any]],
        blobs: list[bytes],
        pairs: list[tuple[int, int]],
    ) -> None:
        ends = [(people[a % len(people)]["name"], people[b % len(people)]["name"]) for a, b in pairs]
        with tempfile.TemporaryDirectory() as root:
            first, second = (_copied(template, Path(root) / name) for name in ("first", "second"))
            put(
                first,
                {
                    "Person": [{"id": row["name"], **row} for row in people],
                    "Thing": things,
                    "File": [{"id": str(number), "body": body} for number, body in enumerate(blobs)],
                    "Knows": [{"id": str(number), "src": src, "dst": dst} for number, (src, dst) in enumerate(ends)],
                },
            )
            text = exported(first)

            second.load(io.BytesIO(text), mode="append")
            again = first.load(io.BytesIO(text), mode="merge")

            assert exported(second) == text
            assert again.commit_id is None
            second.load(io.BytesIO(text), mode="overwrite")
            assert exported(second) == text

    check()


def _copied(template: Path, place: Path) -> og.Graph:
    shutil.copytree(template, place)
    return og.open_graph(str(place), runtime=runtime())
