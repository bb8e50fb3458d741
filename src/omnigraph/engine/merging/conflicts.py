"""What two branches say against each other, or say together against the schema."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from omnigraph.engine.writing.violations import MAX_REPORTED_PROBLEMS, format_row_value


class ConflictKind(Enum):
    """Why two branches can't be merged as they are."""

    DIVERGENT_INSERT = "DivergentInsert"
    DIVERGENT_UPDATE = "DivergentUpdate"
    DELETE_VS_UPDATE = "DeleteVsUpdate"
    ORPHAN_EDGE = "OrphanEdge"
    UNIQUE_VIOLATION = "UniqueViolation"
    CARDINALITY_VIOLATION = "CardinalityViolation"
    VALUE_CONSTRAINT_VIOLATION = "ValueConstraintViolation"
    SCHEMA_DIVERGENCE = "SchemaDivergence"

    @property
    def is_of_rows(self) -> bool:
        """Whether a strategy settles it: the two sides disagree about a row, and either may be right."""
        return self in _OF_ROWS


_OF_ROWS = (ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """One row, rule or type about which the branches don't agree.

    The values are in their JSON form: of the property, or by name those of several; None where a state has no such row.
    Of a row that one side deleted they are those that the other changed, of a node with too many or too few edges the
    ids of these edges, and of a schema the declarations.
    """

    kind: ConflictKind
    table: str
    """The key of its table, such as `node:Person`; of a type that has none here, what it would be."""
    id: str | None = None
    property: str | None = None
    other_id: str | None = None
    """Of values that have to be unique: the row that holds them too."""
    base: object = None
    ours: object = None
    theirs: object = None
    message: str

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "kind": self.kind.value,
            "table": self.table,
            "id": self.id,
            "property": self.property,
            "other_id": self.other_id,
            "base": self.base,
            "ours": self.ours,
            "theirs": self.theirs,
            "message": self.message,
        }


@dataclass(slots=True)
class Conflicts:
    """The first conflicts, and how many there are of each kind."""

    listed: list[Conflict] = field(default_factory=list)
    counts: dict[ConflictKind, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    def add(self, kind: ConflictKind, conflicts: Iterable[Conflict], total: int) -> None:
        """So many more of a kind; of these, at least as many are given as may be shown."""
        if total:
            self.counts[kind] = self.counts.get(kind, 0) + total
            self.listed += islice(conflicts, self.remaining)

    @property
    def remaining(self) -> int:
        """How many more are shown."""
        return MAX_REPORTED_PROBLEMS - len(self.listed)


def format_conflict_value(value: object) -> str:
    """A value in its JSON form, on one line and never long."""
    return format_row_value(value)
