"""Prove a history: recompute the digest of every commit, from the newest back to where the chain begins."""

from dataclasses import dataclass, field

from omnigraph.commit.digests import begins_chain, compute_digest, covers_schema
from omnigraph.commit.manifest_types import Commit, Manifest, Pin, PinChange, SchemaRecord


@dataclass(frozen=True, slots=True)
class AlteredCommit:
    """A commit whose row is not what its digest, or that of a commit after it, was computed from."""

    commit: Commit
    reason: str


@dataclass(slots=True)
class SchemaRecords:
    """The accepted schemas that were met in journals. A branch has copies, so one id may be met several times."""

    _by_id: dict[str, list[SchemaRecord]] = field(default_factory=dict)

    def add(self, record: SchemaRecord) -> None:
        """Note a schema as some journal has it."""
        known = self._by_id.setdefault(record.id, [])
        if record not in known:
            known.append(record)

    def find(self, schema_id: str) -> tuple[SchemaRecord, ...]:
        """Return the different contents under an id: one, unless a copy was altered or all are lost."""
        return tuple(self._by_id.get(schema_id, ()))

    def find_altered(self) -> list[str]:
        """Return the ids of schemas of which not all copies are the same."""
        return sorted(schema_id for schema_id, known in self._by_id.items() if len(known) > 1)


@dataclass(frozen=True, slots=True)
class _Link:
    """A commit with what its digest covers beside its row, but for the parent's digest."""

    commit: Commit
    schema: SchemaRecord | None
    fault: str | None
    """Why no digest can be computed."""

    def compute(self, parent_digest: str | None) -> str | None:
        """Return the digest that the commit should have; None when it should have none, or that can't be told."""
        if self.fault is not None or (parent_digest is None and not begins_chain(self.commit)):
            return None
        return compute_digest(self.commit, parent_digest, self.schema)


class DigestChain:
    """The digests of one history. Add its commits newest first; what is altered is returned as soon as it is certain.

    A row that was altered does not match its own digest. A digest that was altered also fails the commit after it,
    which was computed from the true one. So a commit is suspected until the one before it was looked at.
    """

    def __init__(self, manifest: Manifest, schemas: SchemaRecords) -> None:
        self._schemas = schemas
        self._schema_id: str | None = manifest.schema.id
        self._last: Commit | None = None
        self._suspect: _Link | None = None
        self.proven = 0
        """How many commits match their digests."""
        self.first: Commit | None = None
        """The oldest of these."""

    def add(self, commit: Commit) -> list[AlteredCommit]:
        """Take the next older commit; the one that was added before is checked against it."""
        newer, self._last = self._last, commit
        return [] if newer is None else self._check(newer, commit)

    def finish(self) -> list[AlteredCommit]:
        """End with what is there. Of an oldest commit whose parent can't be read the row remains unproven."""
        last, self._last = self._last, None
        found = self._check(last, None) if last is not None and last.parent is None else []
        return [*found, *self._resolve(None)]

    @property
    def is_ended(self) -> bool:
        """Whether the newest commits have digests, and the one that was added last has none: the chain begins here."""
        return self.proven > 0 and self._last is not None and self._last.digest is None and self._suspect is None

    def _check(self, commit: Commit, parent: Commit | None) -> list[AlteredCommit]:
        link = self._build_link(commit)
        before = None if parent is None else parent.digest
        expected = link.compute(before)
        # A release that knew no digests has made it: then the commit after it does not rely on one.
        is_older = parent is None and (self._suspect is None or self._suspect.commit.digest is None)
        found = self._resolve(expected)
        if commit.digest is None:
            is_sound = before is None and (is_older or not begins_chain(commit))
        else:
            is_sound = expected == commit.digest
            self._note_proven(commit, is_sound)
        self._suspect = None if is_sound else link
        return found

    def _note_proven(self, commit: Commit, is_proven: bool) -> None:
        if is_proven:
            self.proven += 1
            self.first = commit

    def _resolve(self, expected: str | None) -> list[AlteredCommit]:
        """Decide about a suspected commit, once it is known which digest its parent should have."""
        link, self._suspect = self._suspect, None
        if link is None:
            return []
        is_proven = expected is not None and link.compute(expected) == link.commit.digest
        self._note_proven(link.commit, is_proven)
        return [] if is_proven else [AlteredCommit(link.commit, link.fault or _explain(link.commit))]

    def _build_link(self, commit: Commit) -> _Link:
        schema_id = commit.schema_after or self._schema_id
        if commit.schema_after is not None:
            self._schema_id = commit.schema_before
        if not covers_schema(commit) or schema_id is None:
            return _Link(commit, None, None)
        schemas = self._schemas.find(schema_id)
        if len(schemas) == 1:
            return _Link(commit, schemas[0], None)
        is_lost = f"the schema {schema_id} that it accepted is gone"
        return _Link(commit, None, f"the schema {schema_id} stands there in two forms" if schemas else is_lost)


def _explain(commit: Commit) -> str:
    if commit.digest is None:
        return "it has no digest, and its parent has one"
    return "it is not what its digest was computed from"


class HeadPins:
    """The pins of a head, each of which the newest commit that changed its table must explain."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._seen: set[str] = set()

    def add(self, commit: Commit) -> list[AlteredCommit]:
        """Take the next older commit; return it for every pin that is not what it says."""
        found = []
        for change in commit.changes:
            if change.table_key in self._seen:
                continue
            self._seen.add(change.table_key)
            if not self._agrees(change):
                found.append(AlteredCommit(commit, f"the head shows another version of {change.table_key}"))
        return found

    def find_unproven(self) -> tuple[str, ...]:
        """Return the tables that no commit has changed which was added."""
        return tuple(sorted(self._manifest.pins.keys() - self._seen))

    def _agrees(self, change: PinChange) -> bool:
        pin = self._manifest.pins.get(change.table_key)
        if change.after is not None:
            return pin is not None and _describe_pin(pin) == _describe_after(change)
        hidden = self._manifest.dropped.get(change.table_key)
        return pin is None and (hidden is None or (str(hidden.version), hidden.rows) == _describe_before(change))


def _describe_pin(pin: Pin) -> tuple[object, ...]:
    return pin.path, str(pin.version), pin.rows, pin.sum


def _describe_after(change: PinChange) -> tuple[object, ...]:
    return change.path, change.after, change.rows_after, change.sum_after


def _describe_before(change: PinChange) -> tuple[object, ...]:
    return change.before, change.rows_before
