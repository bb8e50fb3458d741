"""What became of types and properties between two schemas, as every door tells it."""

from dataclasses import dataclass

from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.ops.row_diff import Document, encode_type_name
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.values import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """An accepted schema that took the place of another, or of none: what became of types and properties."""

    before: str | None
    """The id of the schema that was there."""
    after: str
    added: tuple[AnyType, ...] = ()
    dropped: tuple[AnyType, ...] = ()
    lasting: tuple[TypeChange, ...] = ()
    """Types that live on."""

    def to_json(self) -> Document:
        """What every door shows: types that were dropped and added, and those whose rows or name it changed."""
        told: list[Document] = [{**encode_type_name(type_), "change": "dropped"} for type_ in self.dropped]
        told += [{**encode_type_name(type_), "change": "added"} for type_ in self.added]
        told += [document for one in self.lasting if (document := describe_reshape(one)) is not None]
        return {"before": self.before, "after": self.after, "types": told}


def describe_reshape(change: TypeChange) -> Document | None:
    """What a new schema does to every row of a type; None when it is nothing."""
    renamed = {old: new for new, old in change.old_names.items() if old != new}
    added: Document = {p.name: to_json(p.type, p.default) for p in change.iter_added()}
    dropped = [p.name for p in change.iter_dropped()]
    if not (renamed or added or dropped or change.is_renamed):
        return None
    return {
        **encode_type_name(change.new),
        "change": "reshaped",
        "previous": change.old.name,
        "renamed": renamed,
        "added": added,
        "dropped": dropped,
    }
