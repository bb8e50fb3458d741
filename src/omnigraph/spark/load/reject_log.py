"""Log the records that a task rejects: counts and first problems for the driver, and all records for the quarantine."""

import heapq
from collections.abc import Callable, Iterator, Sequence

import msgspec

from omnigraph.engine.bulk.load_errors import InputNames, Rejections
from omnigraph.engine.bulk.problem_groups import GroupExamples
from omnigraph.engine.bulk.rejected_records import UnreadableRecords, iter_rejected
from omnigraph.engine.decoding.record_error import FurtherProblem, RecordError

# Rejected records are stored in objects of this size, which the driver decodes one at a time.
_OBJECT_BYTES = 1024 * 1024


class RejectedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a task has rejected; its line counts from the start of the split."""

    line: int
    type: str | None
    property: str | None
    value: str | None
    reason: str
    unit: str
    rule: str
    text: bytes
    more: tuple[FurtherProblem, ...] = ()


class SplitRejects(msgspec.Struct, kw_only=True):
    """The records of a split that were rejected."""

    count: int = 0
    types: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of records by type, for those whose type is known."""
    groups: list[GroupExamples] = msgspec.field(default_factory=list)
    objects: list[str] = msgspec.field(default_factory=list)
    """The keys of objects with all records, if they are quarantined."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RejectedRecord).decode_lines


class RejectLog:
    """The rejected records of one split; `keep`, if any, stores an object and returns its key."""

    def __init__(self) -> None:
        self._records = UnreadableRecords(None, {})
        # Lines with their encoded records, not stored yet, and the size of these.
        self._pending: list[tuple[int, bytes]] = []
        self._pending_bytes = 0
        self._objects: list[str] = []
        self._keep: Callable[[str, bytes], str] | None = None
        self._is_on = True

    def keep_by(self, keep: Callable[[str, bytes], str]) -> None:
        """Store all records with their texts by `keep`, called before the first is added."""
        self._keep = keep

    def switch_off(self) -> None:
        """Ignore all records: those of a split that was read before."""
        self._is_on = False

    def add(self, error: RecordError, text: bytes, rule: str = "record") -> None:
        """Add a bad record."""
        if not self._is_on:
            return
        self._records.count_record(error, rule)
        if self._keep is not None:
            self._append(self._keep, error, text, rule)

    def add_rejections(self, rejections: Rejections, inputs: InputNames) -> None:
        """Add the rows that the checks of a batch reject; only those that are stored are looked at one by one."""
        self._records.count += rejections.records
        for rejection, type_, first in rejections.iter_first(inputs):
            key = rejection.rule, type_, rejection.property
            self._records.groups.add_many(key, len(rejection.rows), iter(first))
        if self._keep is None:
            return
        for _, text, problem in iter_rejected(rejections, inputs):
            error = RecordError(
                problem.file or "",
                problem.line or 0,
                problem.type,
                problem.property,
                problem.value,
                problem.message,
                problem.unit,
            )
            self._append(self._keep, error, text, problem.rule)

    def _append(self, keep: Callable[[str, bytes], str], error: RecordError, text: bytes, rule: str) -> None:
        record = RejectedRecord(
            line=error.line,
            type=error.type,
            property=error.property,
            value=error.value,
            reason=error.reason,
            unit=error.unit,
            rule=rule,
            text=text,
            more=error.list_more(),
        )
        encoded = _encode(record)
        self._pending.append((error.line, encoded))
        self._pending_bytes += len(encoded)
        if self._pending_bytes >= _OBJECT_BYTES:
            self._flush(keep)

    def finish(self) -> SplitRejects:
        """Return the counts, the first problems, and the keys of the objects."""
        if self._keep is not None and self._pending:
            self._flush(self._keep)
        records = self._records
        return SplitRejects(
            count=records.count, types=records.types, groups=records.groups.summarize(), objects=self._objects
        )

    def _flush(self, keep: Callable[[str, bytes], str]) -> None:
        # Records that break a rule come after those of their window that can't be decoded. In the order of lines, the
        # driver needs no memory to order all of them.
        self._pending.sort()
        self._objects.append(keep(f"rejected-{len(self._objects)}", b"\n".join(record for _, record in self._pending)))
        self._pending, self._pending_bytes = [], 0


def take_rejects(
    parts: Sequence[SplitRejects],
    name: str,
    lines_before: int,
    rejects: UnreadableRecords,
    read: Callable[[str], bytes],
) -> None:
    """Add the rejected records of a split of the input `name`; `read` returns the data of an object.

    Each part is in the order of lines, and so are the records that are added.
    """
    for part in parts:
        rejects.count += part.count
        for type_, count in part.types.items():
            rejects.types[type_] = rejects.types.get(type_, 0) + count
        rejects.groups.include_part(part.groups, rejects.numbers.get(name, 0), lines_before)
    if rejects.directory is None:
        return
    for record in heapq.merge(*(_iter_records(part, read) for part in parts), key=lambda record: record.line):
        line = record.line + lines_before
        error = RecordError(name, line, record.type, record.property, record.value, record.reason, record.unit)
        rejects.spool(error.with_more(record.more), record.text, record.rule)


def _iter_records(part: SplitRejects, read: Callable[[str], bytes]) -> Iterator[RejectedRecord]:
    for key in part.objects:
        yield from _decode(read(key))
