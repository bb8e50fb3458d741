"""Merge conflicts: changes of two branches that contradict each other, or together violate the schema."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS
from omnigraph.json_struct import JsonStruct


class ConflictKind(Enum):
    """Why two branches can't be merged."""

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
        """Whether a merge strategy resolves it: the two sides disagree about a row, and either may be right."""
        return self in _OF_ROWS


# The other kinds violate the schema whichever side is preferred, so that no strategy resolves them.
_OF_ROWS = (ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE)


class Conflict(JsonStruct, frozen=True, kw_only=True):
    """A row, constraint or type on which the branches disagree.

    `base`, `ours` and `theirs` are JSON values: of the property, or a dict by name of several; None where a state has
    no such row. For a row that one side deleted they are the properties that the other changed, for a node with too
    many or too few edges the ids of those edges, and for a schema the declarations.
    """

    kind: ConflictKind
    table: str
    """The key of its table, such as `node:Person`; for a type without a table here, the key it would have."""
    id: str | None = None
    property: str | None = None
    other_id: str | None = None
    """For a unique constraint the other row with the same values, for an edge without an end the missing node."""
    base: object = None
    ours: object = None
    theirs: object = None
    message: str


@dataclass(slots=True)
class Conflicts:
    """The first conflicts up to a limit, and the number of all by kind."""

    limit: int = MAX_REPORTED_PROBLEMS

    listed: list[Conflict] = field(default_factory=list)
    counts: dict[ConflictKind, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """The number of conflicts, listed or not."""
        return sum(self.counts.values())

    def add(self, kind: ConflictKind, conflicts: Iterable[Conflict], total: int) -> None:
        """Count `total` more conflicts of a kind, and list those of `conflicts` that still fit.

        `conflicts` holds all of them, or at least as many as may still be listed.
        """
        if total:
            # `islice` stops early: a lazy `conflicts` builds only what is listed.
            self.counts[kind] = self.counts.get(kind, 0) + total
            self.listed += islice(conflicts, self.remaining)

    @property
    def remaining(self) -> int:
        """The number of conflicts that may still be listed."""
        return self.limit - len(self.listed)
