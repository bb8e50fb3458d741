"""Verify a history: recompute the digest of every commit, from the newest back to where the chain begins."""

from dataclasses import dataclass, field

from omnigraph.commit.digests import begins_chain, compute_digest, covers_schema
from omnigraph.commit.manifest_types import Commit, Manifest, Pin, PinChange, SchemaRecord


@dataclass(frozen=True, slots=True)
class AlteredCommit:
    """A commit whose row does not match its own digest, or that of a later commit."""

    commit: Commit
    reason: str


@dataclass(slots=True)
class SchemaRecords:
    """The accepted schemas read from journals. Branches have copies, so the same id may be added several times."""

    _by_id: dict[str, list[SchemaRecord]] = field(default_factory=dict)

    def add(self, record: SchemaRecord) -> None:
        """Add a schema of a journal."""
        records = self._by_id.setdefault(record.id, [])
        if record not in records:
            records.append(record)

    def find(self, schema_id: str) -> tuple[SchemaRecord, ...]:
        """Return the distinct schemas with an id: one, unless a copy was altered or all are lost."""
        return tuple(self._by_id.get(schema_id, ()))

    def find_altered(self) -> list[str]:
        """Return the ids of schemas whose copies differ."""
        return sorted(schema_id for schema_id, records in self._by_id.items() if len(records) > 1)


@dataclass(frozen=True, slots=True)
class _Link:
    """A commit with the other inputs of its digest, except for the parent's digest."""

    commit: Commit
    schema: SchemaRecord | None
    fault: str | None
    """The reason why no digest can be computed."""

    def compute(self, parent_digest: str | None) -> str | None:
        """Return the digest that the commit should have; None if it should have none, or if it can't be computed."""
        if self.fault is not None or (parent_digest is None and not begins_chain(self.commit)):
            return None
        return compute_digest(self.commit, parent_digest, self.schema)


class DigestChain:
    """The digests of one history. Add its commits newest first; altered ones are returned as soon as that is certain.

    An altered row does not match its own digest. An altered digest also breaks the commit after it, whose digest was
    computed from the original. So a commit that does not match is only suspect until its parent has been checked.
    """

    def __init__(self, manifest: Manifest, schemas: SchemaRecords) -> None:
        self._schemas = schemas
        self._schema_id: str | None = manifest.schema.id
        self._last: Commit | None = None
        self._suspect: _Link | None = None
        # The number of commits that match their digests, and the oldest of them.
        self.proven = 0
        self.first: Commit | None = None

    def add(self, commit: Commit) -> list[AlteredCommit]:
        """Add the next older commit, check the one added before it, and return commits now known to be altered."""
        newer, self._last = self._last, commit
        return [] if newer is None else self._check(newer, commit)

    def finish(self) -> list[AlteredCommit]:
        """Check the oldest commit, and return the commits that are altered.

        If the parent of the oldest commit can't be read, the oldest commit remains unverified.
        """
        last, self._last = self._last, None
        altered = self._check(last, None) if last is not None and last.parent is None else []
        return [*altered, *self._resolve(None)]

    @property
    def is_ended(self) -> bool:
        """Whether newer commits have digests and the one that was added last has none: the chain begins here."""
        return self.proven > 0 and self._last is not None and self._last.digest is None and self._suspect is None

    def _check(self, commit: Commit, parent: Commit | None) -> list[AlteredCommit]:
        link = self._build_link(commit)
        parent_digest = None if parent is None else parent.digest
        expected = link.compute(parent_digest)
        # The first commit of a graph may be from a release without digests: then the commit after it relies on none.
        is_older = parent is None and (self._suspect is None or self._suspect.commit.digest is None)
        altered = self._resolve(expected)
        if commit.digest is None:
            is_sound = parent_digest is None and (is_older or not begins_chain(commit))
        else:
            is_sound = expected == commit.digest
            self._note_proven(commit, is_sound)
        self._suspect = None if is_sound else link
        return altered

    def _note_proven(self, commit: Commit, is_proven: bool) -> None:
        if is_proven:
            self.proven += 1
            self.first = commit

    def _resolve(self, expected: str | None) -> list[AlteredCommit]:
        """Resolve the suspect, now that the digest its parent should have is known; return it if it is altered."""
        link, self._suspect = self._suspect, None
        if link is None:
            return []
        # With the parent's expected digest the suspect matches: then the parent's stored digest was altered instead.
        is_proven = expected is not None and link.compute(expected) == link.commit.digest
        self._note_proven(link.commit, is_proven)
        return [] if is_proven else [AlteredCommit(link.commit, link.fault or _explain(link.commit))]

    def _build_link(self, commit: Commit) -> _Link:
        # The walk goes backwards: before a commit that accepted a schema, the older one was in force.
        schema_id = commit.schema_after or self._schema_id
        if commit.schema_after is not None:
            self._schema_id = commit.schema_before
        if not covers_schema(commit) or schema_id is None:
            return _Link(commit, None, None)
        schemas = self._schemas.find(schema_id)
        if len(schemas) == 1:
            return _Link(commit, schemas[0], None)
        if schemas:
            return _Link(commit, None, f"there are different copies of the schema {schema_id}")
        return _Link(commit, None, f"the schema {schema_id} that it accepted is missing")


def _explain(commit: Commit) -> str:
    if commit.digest is None:
        return "it has no digest, but its parent has one"
    return "it does not match its digest"


class HeadPins:
    """The pins of a head, each checked against the newest commit that changed its table."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._seen: set[str] = set()

    def add(self, commit: Commit) -> list[AlteredCommit]:
        """Add the next older commit, and return it once for every pin that contradicts it."""
        altered = []
        for change in commit.changes:
            if change.table_key in self._seen:
                continue
            self._seen.add(change.table_key)
            if not self._agrees(change):
                altered.append(AlteredCommit(commit, f"the head shows another version of {change.table_key}"))
        return altered

    def find_unproven(self) -> tuple[str, ...]:
        """Return the tables that none of the added commits has changed."""
        return tuple(sorted(self._manifest.pins.keys() - self._seen))

    def _agrees(self, change: PinChange) -> bool:
        pin = self._manifest.pins.get(change.table_key)
        if change.after is not None:
            return pin is not None and _describe_pin(pin) == _describe_after(change)
        # A table that the commit dropped is hidden, with the pin that it had before, or was dropped permanently.
        hidden = self._manifest.dropped.get(change.table_key)
        return pin is None and (hidden is None or (str(hidden.version), hidden.rows) == _describe_before(change))


def _describe_pin(pin: Pin) -> tuple[object, ...]:
    return pin.path, str(pin.version), pin.rows, pin.sum


def _describe_after(change: PinChange) -> tuple[object, ...]:
    return change.path, change.after, change.rows_after, change.sum_after


def _describe_before(change: PinChange) -> tuple[object, ...]:
    return change.before, change.rows_before
