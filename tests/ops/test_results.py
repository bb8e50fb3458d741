"""Results declare their JSON form by keys that exist, and leave no field out by mistake."""

import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import omnigraph.ops
from omnigraph.json_struct import JsonStruct, find_type, list_keys

# Fields that are stored or internal, and not part of the JSON form.
HIDDEN = {
    "Commit": {
        "merged_from", "request", "affected_nodes", "affected_edges", "summary",
    },
    "PinChange": {"replaced", "branch_before", "sum_before", "sum_after", "lists_before"},
    "Problem": {"unit"},
    # Encoded by properties.
    "QueryMeasurement": {"seconds", "planning_seconds"},
    "RepairResult": {"moved_heads"},
    "SchemaResult": {"held_by"},
    "Step": {"previous", "rule", "replaces", "changes", "facts", "is_hard"},
}  # fmt: skip


def list_results(base: type[JsonStruct] = JsonStruct) -> Iterator[type[JsonStruct]]:
    for module in pkgutil.iter_modules(omnigraph.ops.__path__, "omnigraph.ops."):
        importlib.import_module(module.name)
    for result in base.__subclasses__():
        if result.__module__.startswith("omnigraph."):
            yield result
            yield from list_results(result)


RESULTS = sorted(list_results(), key=lambda result: result.__name__)


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
def test_every_key_has_a_typed_attribute(result: type[JsonStruct]) -> None:
    assert [find_type(result, key.attribute) for key in list_keys(result)]


@pytest.mark.parametrize("result", RESULTS, ids=lambda result: result.__name__)
def test_every_field_has_a_key_unless_it_is_hidden(result: type[JsonStruct]) -> None:
    shown = {key.attribute.partition(".")[0] for key in list_keys(result)}

    assert set(result.__struct_fields__) - shown == HIDDEN.get(result.__name__, set())


def test_no_key_is_there_twice() -> None:
    keys = {result: [(key.outer, key.name) for key in list_keys(result)] for result in RESULTS}

    assert [result for result, names in keys.items() if len(set(names)) < len(names)] == []
