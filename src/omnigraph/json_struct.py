"""Structs that declare their JSON form once: it is encoded, decoded and described from the same keys."""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from omnigraph.clock import format_instant

S = TypeVar("S", bound=msgspec.Struct)

# The types whose values are their own JSON form.
_SCALARS = frozenset({str, int, float, bool, NoneType})


class JsonStruct(msgspec.Struct, frozen=True, kw_only=True):
    """A value with a JSON form, which has one key for each field, in order, unless `json_keys` lists other keys.

    `json_keys` separates keys by blanks. `key=attribute` is a key with another name than its attribute, which may be a
    property or a path such as `plan.rows`. `outer.key` is a key of an inner object. `key?` is left out if its value is
    None or an empty tuple.
    """

    json_keys: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that all interfaces share."""
        return encode_struct(self)


class JsonKey(NamedTuple):
    """A key of a JSON form: `name`, in the inner object `outer` if it has one, with the value of `attribute`."""

    outer: str | None
    name: str
    attribute: str
    is_optional: bool


def encode_struct(value: msgspec.Struct) -> dict[str, Any]:
    """Return the JSON form of a struct; one that is not a `JsonStruct` has a key for each field."""
    document: dict[str, Any] = {}
    type_ = type(value)
    for key, item in zip(list_keys(type_), _build_getter(type_)(value), strict=True):
        # Most items are scalars. A load encodes a struct for each rejected record: 1.5 us with this check, 5.1 without.
        encoded = item if type(item) in _SCALARS else _encode_value(item)
        if key.outer is None and not key.is_optional:
            document[key.name] = encoded
        elif not key.is_optional or item not in (None, ()):
            owner = document if key.outer is None else document.setdefault(key.outer, {})
            owner[key.name] = encoded
    return document


def decode_struct(type_: type[S], document: Mapping[str, Any], **known: object) -> S:
    """Return the struct that has a JSON form; fields without a key keep their defaults, unknown keys are ignored.

    `known` are fields to set to these values instead of those in the document.

    Raises:
        KeyError: The document lacks a key.
        ValueError: It has an unknown member of an enumeration.
    """
    values = dict(known)
    decoders = _build_decoders(type_)
    for key in list_keys(type_):
        if key.attribute not in decoders or key.attribute in known:
            continue
        owner = document if key.outer is None else document[key.outer]
        if key.name in owner or not key.is_optional:
            values[key.attribute] = decoders[key.attribute](owner[key.name])
    return type_(**values)


@cache
def list_keys(type_: type[msgspec.Struct]) -> tuple[JsonKey, ...]:
    """Return the keys of the JSON form of a struct, in order."""
    declared = getattr(type_, "json_keys", "") or " ".join(type_.__struct_fields__)
    return tuple(_parse_key(text) for text in declared.split())


def find_type(type_: type, attribute: str) -> Any:  # noqa: ANN401 - any annotation
    """Return the declared type of a field, of a property, or at a path such as `plan.rows`."""
    name, _, rest = attribute.partition(".")
    member = getattr(type_, name, None)
    hints = get_type_hints(member.fget)["return"] if isinstance(member, property) else get_type_hints(type_)[name]
    return find_type(hints, rest) if rest else hints


def _parse_key(text: str) -> JsonKey:
    path, _, attribute = text.partition("=")
    outer, _, name = path.removesuffix("?").rpartition(".")
    return JsonKey(outer or None, name, attribute or name, path.endswith("?"))


@cache
def _build_getter(type_: type[msgspec.Struct]) -> Callable[[msgspec.Struct], tuple[Any, ...]]:
    """Return a function that returns the values of all keys."""
    attributes = [key.attribute for key in list_keys(type_)]
    # With one attribute, `attrgetter` would return the value instead of a tuple.
    return attrgetter(*attributes) if len(attributes) > 1 else lambda value: (attrgetter(*attributes)(value),)


@cache
def _build_decoders(type_: type[msgspec.Struct]) -> dict[str, Callable[[Any], Any]]:
    """Return the decoder of each field."""
    hints = get_type_hints(type_)
    return {name: _build_decoder(hints[name]) for name in type_.__struct_fields__}


def _encode_value(value: object) -> object:
    match value:
        case JsonStruct():
            return value.to_json()
        case msgspec.Struct():
            return encode_struct(value)
        case Enum():
            return value.value
        case datetime():
            return format_instant(value)
        case tuple() | list():
            return [item if type(item) in _SCALARS else _encode_value(item) for item in value]
        case Mapping():
            return {name: _encode_value(item) for name, item in value.items()}
        case _:
            return value


@cache
def _build_decoder(type_: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any annotation
    """Return the function that decodes the JSON form of a value of this type."""
    origin = get_origin(type_)
    if origin in (Union, UnionType):
        decode = _build_decoder(next(item for item in get_args(type_) if item is not NoneType))
        return lambda value: None if value is None else decode(value)
    if origin is tuple:
        decode_item = _build_decoder(get_args(type_)[0])
        return lambda values: tuple(decode_item(value) for value in values)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        decode_item = _build_decoder(get_args(type_)[1])
        return lambda values: {name: decode_item(value) for name, value in values.items()}
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return partial(decode_struct, type_)
    return type_ if isinstance(type_, type) and issubclass(type_, Enum) else lambda value: value
