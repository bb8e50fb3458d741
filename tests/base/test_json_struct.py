"""A struct declares its JSON form once: it is encoded and decoded by the same keys."""

import copy
import json
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec
import pytest

from omnigraph.json_struct import JsonStruct, decode_struct


class Colour(Enum):
    RED = "red"


class Part(JsonStruct, frozen=True, kw_only=True):
    name: str
    size: int | None = None


class Whole(JsonStruct, frozen=True, kw_only=True):
    json_keys = (
        "colour target.branch=branch dry_run=is_dry_run parts first=main.name "
        "counts.total=total counts.kinds=kinds gone?"
    )

    branch: str
    colour: Colour
    is_dry_run: bool = False
    parts: tuple[Part, ...] = ()
    main: Part = Part(name="m")
    kinds: Mapping[str, int] = {}
    gone: tuple[str, ...] = ()
    hidden: str = "default"

    @property
    def total(self) -> int:
        return sum(self.kinds.values())


WHOLE = Whole(branch="main", colour=Colour.RED, parts=(Part(name="p", size=1),), kinds={"a": 2, "b": 3})
FORM: dict[str, Any] = {
    "colour": "red",
    "target": {"branch": "main"},
    "dry_run": False,
    "parts": [{"name": "p", "size": 1}],
    "first": "m",
    "counts": {"total": 5, "kinds": {"a": 2, "b": 3}},
}


def test_the_form_has_the_declared_keys_in_order() -> None:
    assert json.dumps(WHOLE.to_json()) == json.dumps(FORM)


def test_without_declared_keys_the_form_has_the_fields_in_order() -> None:
    assert json.dumps(Part(size=None, name="p").to_json()) == '{"name": "p", "size": null}'


def test_an_optional_key_is_there_if_it_has_a_value() -> None:
    assert msgspec.structs.replace(WHOLE, gone=("x",)).to_json() == {**FORM, "gone": ["x"]}


def test_a_form_is_decoded_to_an_equal_value() -> None:
    assert decode_struct(Whole, FORM) == WHOLE


def test_a_field_without_a_key_keeps_its_default_and_a_known_field_its_value() -> None:
    decoded = decode_struct(Whole, FORM, branch="other", main=Part(name="n"))

    assert (decoded.hidden, decoded.branch, decoded.main.name) == ("default", "other", "n")


def test_an_unknown_key_is_ignored_and_a_missing_one_is_an_error() -> None:
    assert decode_struct(Part, {"name": "p", "size": None, "new": 1}) == Part(name="p")
    with pytest.raises(KeyError, match="size"):
        decode_struct(Part, {"name": "p"})


def test_an_unknown_member_of_an_enumeration_is_an_error() -> None:
    with pytest.raises(ValueError, match="blue"):
        decode_struct(Whole, {**FORM, "colour": "blue"})


def test_a_time_is_text() -> None:
    class Timed(JsonStruct, frozen=True, kw_only=True):
        at: datetime

    assert Timed(at=datetime(2026, 1, 31, 12, tzinfo=UTC)).to_json() == {"at": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    "copied",
    [pickle.loads(pickle.dumps(WHOLE)), copy.deepcopy(WHOLE)],  # noqa: S301 - its own
    ids=["pickle", "copy"],
)
def test_a_copy_is_equal(copied: Whole) -> None:
    assert copied == WHOLE


def test_a_value_is_hashable_if_its_fields_are_and_can_not_be_changed() -> None:
    part = Part(name="p")

    assert {part: 1}[Part(name="p")] == 1
    with pytest.raises(AttributeError):
        part.name = "q"  # type: ignore[misc]  # it is frozen
    with pytest.raises(TypeError):
        hash(WHOLE)
    assert repr(part) == "Part(name='p', size=None)"
