"""The changes of types and properties between two schemas, in the form that all interfaces show."""

from dataclasses import dataclass

from omnigraph.engine.migrating.type_changes import TypeChange
from omnigraph.ops.row_diff import Document, encode_type_name
from omnigraph.schema.catalog import AnyType
from omnigraph.schema.values import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """The replacement of a schema by another, or the first schema."""

    before: str | None
    """The id of the earlier schema."""
    after: str
    added: tuple[AnyType, ...] = ()
    dropped: tuple[AnyType, ...] = ()
    lasting: tuple[TypeChange, ...] = ()
    """Types that both schemas have."""

    def to_json(self) -> Document:
        """Return the JSON form: dropped and added types, and those whose rows or name changed."""
        documents: list[Document] = [{**encode_type_name(type_), "change": "dropped"} for type_ in self.dropped]
        documents += [{**encode_type_name(type_), "change": "added"} for type_ in self.added]
        documents += [document for change in self.lasting if (document := describe_reshape(change)) is not None]
        return {"before": self.before, "after": self.after, "types": documents}


def describe_reshape(change: TypeChange) -> Document | None:
    """Return the effect of a new schema on every row of a type; None if it has none."""
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
