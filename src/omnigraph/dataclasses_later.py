"""`dataclass` as the standard library has it, whose methods are made when they are needed.

The standard library writes and compiles the methods of each class while its module is imported: that is most of what
importing our own modules takes, and a process uses few of the classes, and few of these often. So modules that every
query imports have their dataclasses from here. A class has the same fields and behaves the same. Its methods are those
of the standard library from their first call on, and its `__init__` once it was called often enough to pay.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_PAYS_FROM = 100
"""So many instances take about as long to make without a compiled method as compiling it does."""

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        order: bool = False,
    ) -> object:
        """As `dataclasses.dataclass`, with those of its options that are in use; what has an order is left to it."""

        def made(given: type) -> type:
            if order:
                return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, order=True)(given)
            return _made(given, is_frozen=frozen, slots=slots, kw_only=kw_only)

        return made if cls is None else made(cls)


def _made(given: type, *, is_frozen: bool, slots: bool, kw_only: bool) -> type:
    own = dict(vars(given))
    # It finds the fields, and refuses wrong ones. Asked for no methods, it has nothing to compile.
    cls: type[Any] = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(given)
    parts: dict[str, object] = {name: _later(cls, name, is_frozen) for name in ("__init__", "__repr__", "__eq__")}
    if own.get("__hash__") is None:  # as it is also for who has an `__eq__` of its own
        own.pop("__hash__", None)
        parts["__hash__"] = _later(cls, "__hash__", is_frozen) if is_frozen else None
    if is_frozen:
        parts |= _refusals(cls)
    if is_frozen and slots:  # without these, a pickle would set the attributes
        parts |= {"__getstate__": _state, "__setstate__": _set_state}
    for name, part in parts.items():
        if name not in own:
            setattr(cls, name, part)
    return cls


def _later(cls: type[Any], name: str, is_frozen: bool) -> Callable[..., Any]:
    """A method that has the standard library's put into its own place."""
    calls = 0
    filling: _Filling | None = None

    def method(self: object, /, *args: object, **named: object) -> object:
        real = _real(cls, name, is_frozen)
        setattr(cls, name, real)
        return real(self, *args, **named)

    def init(self: object, /, *args: object, **named: object) -> None:
        nonlocal calls, filling
        calls += 1
        if filling is None:
            filling = _Filling(cls, object.__setattr__ if is_frozen else setattr)
        if calls > _PAYS_FROM or not filling.fill(self, args, named):
            method(self, *args, **named)

    found: Callable[..., Any] = init if name == "__init__" else method
    found.__name__, found.__qualname__ = name, f"{cls.__qualname__}.{name}"
    return found


class _Filling:
    """Does what an `__init__` does, for any class."""

    def __init__(self, cls: type[Any], set_one: Callable[[object, str, object], None]) -> None:
        self._set_one = set_one
        self._fields = dataclasses.fields(cls)
        given = [field for field in self._fields if field.init]
        self._names = {field.name for field in given}
        self._placed = [field.name for field in given if not field.kw_only]
        self._must = {field.name for field in given if field.default is field.default_factory is MISSING}
        self._goes_on = hasattr(cls, "__post_init__")

    def fill(self, instance: Any, args: Sequence[object], named: Mapping[str, object]) -> bool:  # noqa: ANN401 - of any class
        """Set the fields of an instance; False, and nothing is done, when the arguments are not right."""
        values = {**dict(zip(self._placed, args, strict=False)), **named}
        if len(values) != len(args) + len(named) or not self._must <= values.keys() <= self._names:
            return False
        for field in self._fields:
            if field.name in values:
                self._set_one(instance, field.name, values[field.name])
            elif field.default_factory is not MISSING:
                self._set_one(instance, field.name, field.default_factory())
            elif field.default is not MISSING:
                self._set_one(instance, field.name, field.default)
        if self._goes_on:
            instance.__post_init__()
        return True


def _real(cls: type[Any], name: str, is_frozen: bool) -> Callable[..., Any]:
    """The standard library's method, from a class with the same fields."""
    twin = dataclasses.make_dataclass(
        cls.__name__,
        [(field.name, object, _copied(field)) for field in dataclasses.fields(cls)],
        namespace={part: getattr(cls, part) for part in ("__doc__", "__post_init__") if hasattr(cls, part)},
        init=name == "__init__",
        repr=name == "__repr__",
        eq=name in ("__eq__", "__hash__"),
        frozen=is_frozen,
        slots="__slots__" in vars(cls),  # then a field without an argument is set too
    )
    found: Callable[..., Any] = getattr(twin, name)
    found.__qualname__ = f"{cls.__qualname__}.{name}"
    return found


def _copied(field: dataclasses.Field[Any]) -> Any:  # noqa: ANN401 - as the standard library's `field` is typed
    options = ("default", "default_factory", "init", "repr", "hash", "compare", "kw_only")
    given: dict[str, Any] = {option: getattr(field, option) for option in options}
    return dataclasses.field(**{option: value for option, value in given.items() if value is not MISSING})


def _refusals(cls: type[Any]) -> dict[str, object]:
    """What makes instances frozen."""
    names = {field.name for field in dataclasses.fields(cls)}

    def set_one(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_one(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_one, "__delattr__": delete_one}


def _state(self: Any) -> list[object]:  # noqa: ANN401 - a dataclass
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:  # noqa: ANN401 - a dataclass
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
