"""A stored JSON document, read strictly: every value knows its path, and says it when it is not what it must be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.catalog import Value
from omnigraph.schema.misfit import InvalidValue, format_value
from omnigraph.schema.types import ValueType
from omnigraph.schema.values import from_json

T = TypeVar("T")


class CatalogCorruptError(OmnigraphError):
    """The stored catalog is damaged."""

    kind = Kind.CORRUPT
    code = "catalog_corrupt"

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place, self.reason = place, reason

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        return (
            f"the stored schema is damaged{where}: {self.reason}. It is in the manifest of the branch:"
            " `omnigraph repair --from COPY` puts that back from a clone or a backup; else read an older commit"
            " (--snapshot) or another branch, or run `omnigraph repair`, which goes back to what is whole"
        )


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value of the document and the path that leads to it."""

    path: str
    value: object

    def fail(self, reason: str) -> NoReturn:
        """Refuse the document because of this place."""
        raise CatalogCorruptError(self.path, reason)

    def read_fields(self, *names: str) -> dict[str, "JsonNode"]:
        """The fields of an object that must have exactly these."""
        if not isinstance(self.value, dict):
            self.fail(f"expected an object, got {format_value(self.value)}")
        if missing := [name for name in names if name not in self.value]:
            self.fail(f"the field `{missing[0]}` is missing")
        if unknown := [str(name) for name in self.value if name not in names]:
            self.fail(f"the field {format_value(unknown[0])} is unknown")
        return {name: JsonNode(f"{self.path}.{name}".lstrip("."), self.value[name]) for name in names}

    def read_items(self) -> list["JsonNode"]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.fail(f"expected a list, got {format_value(self.value)}")
        return [JsonNode(f"{self.path}[{index}]", item) for index, item in enumerate(self.value)]

    def map_items(self, read: Callable[["JsonNode"], T]) -> tuple[T, ...]:
        """What `read` makes of each item of a list."""
        return tuple(read(item) for item in self.read_items())

    def read_text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self.fail(f"expected a string, got {format_value(self.value)}")
        return self.value

    def read_optional_text(self) -> str | None:
        """A string or null."""
        return None if self.value is None else self.read_text()

    def read_flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, got {format_value(self.value)}")
        return self.value

    def read_count(self) -> int:
        """A whole number of at least 0."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            self.fail(f"expected a whole number of at least 0, got {format_value(self.value)}")
        return self.value

    def read_typed(self, type_: ValueType) -> Value:
        """A value of this type, or null."""
        value = from_json(type_, self.value, nullable=True)
        if isinstance(value, InvalidValue):
            self.fail(value.reason)
        return value
