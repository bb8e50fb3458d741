"""Dataclasses whose methods are made later are those of the standard library in all that can be seen."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field, fields, replace
from typing import Any, ClassVar

import pytest

from omnigraph import dataclasses_later

OFTEN = 2 * dataclasses_later._PAYS_FROM
"""So many instances, and all methods are the compiled ones."""


LATER: dict[str, Callable[..., Any]] = {
    "the standard library": dataclasses.dataclass,
    "later": dataclasses_later.dataclass,
    "later, often used": dataclasses_later.dataclass,
}


@pytest.fixture(params=LATER)
def make(request: pytest.FixtureRequest) -> Callable[..., type[Any]]:
    """A dataclass of these options; the fixture's name says who makes it, and how often it was used."""

    def made(cls: type, **options: bool) -> type[Any]:
        found: type[Any] = LATER[request.param](**options)(cls)
        for _ in range(OFTEN if request.param.endswith("used") else 0):
            found(1)
        return found

    return made


class Point:
    """A place."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)
    size: int = field(default=0, kw_only=True)
    norm: int = field(init=False, repr=False, default=7)
    count: ClassVar[int] = 0


def same_class(**space: object) -> type:
    """A class of the same body, since a decorator may change the one that it is given."""
    body = {key: value for key, value in vars(Point).items() if key not in ("__dict__", "__weakref__")}
    return type("Point", (), {**body, "__qualname__": "Point", **space})


FORMS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": False},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_instances_say_what_they_are(make: Callable[..., type[Any]], form: dict[str, bool]) -> None:
    point = make(same_class(), **form)

    assert repr(point(1, size=3)) == "Point(x=1, y=2, tags=[], size=3)"
    assert (point(1) == point(1, 2, ["a"]), point(1) == point(2), point(1) == 1) == (True, False, False)
    assert point(1).norm == 7
    assert point(1).tags is not point(1).tags
    assert [one.name for one in fields(point)] == ["x", "y", "tags", "size", "norm"]
    assert replace(point(1, 5), x=4) == point(4, 5)
    match point(8):
        case point(x, y):
            assert (x, y) == (8, 2)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_only_frozen_ones_have_a_hash_and_keep_their_values(
    make: Callable[..., type[Any]], form: dict[str, bool]
) -> None:
    one = make(same_class(), **form)(1)

    if form.get("frozen"):
        assert hash(one) == hash(make(same_class(), **form)(1))
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
            one.x = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
            del one.x
    else:
        one.x = 2
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)


@pytest.mark.parametrize(
    "args, named, message",
    [
        ((), {}, r"Point.__init__\(\) missing 1 required positional argument: 'x'"),
        ((1,), {"z": 1}, r"Point.__init__\(\) got an unexpected keyword argument 'z'"),
        ((1,), {"x": 1}, r"Point.__init__\(\) got multiple values for argument 'x'"),
        ((1, 2, [], 4), {}, r"Point.__init__\(\) takes from 2 to 4 positional arguments but 5 were given"),
        ((1,), {"norm": 1}, r"Point.__init__\(\) got an unexpected keyword argument 'norm'"),
    ],
)
def test_wrong_arguments_are_told_alike(
    make: Callable[..., type[Any]], args: tuple[object, ...], named: dict[str, object], message: str
) -> None:
    point = make(same_class(), frozen=True, slots=True)

    with pytest.raises(TypeError, match=message):
        point(*args, **named)


def test_what_comes_after_is_called_once(make: Callable[..., type[Any]]) -> None:
    seen: list[int] = []
    point = make(same_class(__post_init__=lambda self: seen.append(self.x)))

    seen.clear()
    point(5)

    assert seen == [5]


def test_what_comes_after_is_that_of_the_instance(make: Callable[..., type[Any]]) -> None:
    point = make(same_class(__post_init__=lambda _: None))
    seen: list[int] = []
    child = type("Child", (point,), {"__post_init__": lambda self: seen.append(self.x)})

    child(5)

    assert seen == [5]


def test_methods_of_the_class_itself_stay(make: Callable[..., type[Any]]) -> None:
    own = same_class(__repr__=lambda _: "here", __eq__=lambda _, __: True)

    point = make(own, frozen=True)

    assert repr(point(1)) == "here"
    assert point(1) == 5
    assert hash(point(1)) == hash(point(1))


def test_a_subclass_has_the_fields_of_both(make: Callable[..., type[Any]]) -> None:
    base = make(same_class(), frozen=True, slots=True)

    child = make(type("Child", (base,), {"__annotations__": {"z": int}, "z": 9, "__doc__": "More."}), frozen=True)

    assert repr(child(1, 2, [], 3)) == "Child(x=1, y=2, tags=[], size=0, z=3)"
    assert child(1) != base(1)


@dataclasses_later.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Something that travels between processes."""

    name: str
    parts: tuple[int, ...] = ()


def test_frozen_slots_are_pickled_and_copied() -> None:
    one = Sent(name="a", parts=(1, 2))

    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes
    assert copy.deepcopy(one) == one


def test_what_has_an_order_keeps_it() -> None:
    point: type[Any] = dataclasses_later.dataclass(frozen=True, slots=True, order=True)(same_class())

    assert point(1) < point(1, 3) < point(2)


def test_an_often_made_class_has_the_compiled_method() -> None:
    point: type[Any] = dataclasses_later.dataclass(slots=True)(same_class())
    few = list(inspect.signature(point.__init__).parameters)

    for _ in range(OFTEN):
        point(1)

    assert few == ["self", "args", "named"]
    assert list(inspect.signature(point.__init__).parameters) == ["self", "x", "y", "tags", "size"]
