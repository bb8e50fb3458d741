"""Compute the vectors that `@embed` declares, in batches with one commit each.

Committed batches stay: a run that was stopped resumes where it ended. A row whose text changes while its vector is
computed does not get the vector of the old text: the batch is then read and computed again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.manifest_types import EMBED
from omnigraph.commit.requirements import RowsUnchanged
from omnigraph.engine.embed import Provider, check_fits, embed_texts
from omnigraph.engine.embedders.factory import create_provider
from omnigraph.engine.view import View
from omnigraph.engine.writing.blobs import list_blob_properties, reference_blobs
from omnigraph.engine.writing.write_buffer import PendingTable, WriteBuffer
from omnigraph.errors import MissingError, SettingsError
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.ops.retry import rerun_on_conflict
from omnigraph.ops.session import Session, open_whole_tables
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.policy import Action
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import Catalog, NodeType, Property
from omnigraph.storage.staging import RowStream

OPERATION = EMBED
# Rows per commit. An interrupted run loses the vectors of at most one batch.
DEFAULT_BATCH = 1_000
_SCAN_ROWS = 8_192
# Memory of an id that waits for its batch: a Python string and its slot in a list.
_ID_BYTES = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedCall:
    """The arguments of an embed run."""

    type_name: str
    property: str | None = None
    batch: int = DEFAULT_BATCH
    limit: int | None = None
    all: bool = False
    dry_run: bool = False
    actor: str = "anonymous"
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedProgress:
    """The progress of a run: `done` of `total` rows of one property are processed."""

    property: str
    done: int
    total: int


class EmbeddedProperty(JsonStruct, frozen=True, kw_only=True):
    """The row counts of one property.

    `waiting` rows had no vector when the run began, `embedded` got one, `without_text` have no text to compute it from.
    """

    property: str
    source: str
    waiting: int
    embedded: int
    without_text: int


class EmbedResult(JsonStruct, frozen=True, kw_only=True):
    """The computed vectors of a type; each batch is one of `commits`, oldest first."""

    json_keys = "type target.branch=branch provider model dry_run properties commits"

    type: str
    branch: str
    provider: str
    model: str
    dry_run: bool
    properties: tuple[EmbeddedProperty, ...]
    commits: tuple[str, ...]


def embed(session: Session, call: EmbedCall, progress: Callable[[EmbedProgress], None] | None = None) -> EmbedResult:
    """Compute the missing vectors of a type, or all of them again.

    Raises:
        TypeMissingError, MissingError: No type or computed vector has that name.
        SettingsError, EmbeddingError, ProviderFailedError: The provider does not fit, or failed; batches committed
            before stay.
        ConflictError: Other writers kept changing the rows of a batch.
        QueryTimeoutError, QueryMemoryError, QueryCancelledError: The session's budget ran out; batches
            committed before stay.
    """
    session.allow(Action.READ if call.dry_run else Action.CHANGE, signed=None if call.dry_run else call.actor)
    check_count("batch", call.batch, minimum=1)
    check_count("limit", call.limit)
    if not call.dry_run:
        session.check_writable()
    snapshot = session.resolve_snapshot()
    type_, properties = _select_properties(session.load_catalog(snapshot), call)
    provider = create_provider(session.runtime, session.watch)
    if provider is None:
        raise SettingsError.no_embedding_provider(f"{type_.name}.{properties[0].name}")
    # Before the first batch: no commit is made if the provider fits only some of the properties.
    for prop in properties:
        check_fits(provider, prop)
    run = _EmbedRun(session, call, provider, progress or (lambda _: None))
    remaining = call.limit
    done: list[EmbeddedProperty] = []
    for prop in properties:
        result = run.fill(prop, remaining)
        done.append(result)
        remaining = None if remaining is None else remaining - result.embedded
    return EmbedResult(
        type=type_.name,
        branch=snapshot.branch,
        provider=provider.name,
        model=provider.model,
        dry_run=call.dry_run,
        properties=tuple(done),
        commits=tuple(run.commits),
    )


def _select_properties(catalog: Catalog, call: EmbedCall) -> tuple[NodeType, list[Property]]:
    """Return the type and its selected properties with computed vectors."""
    type_ = catalog.nodes.get(call.type_name)
    if type_ is None:
        raise TypeMissingError(call.type_name, find_closest(call.type_name, list(catalog.nodes)))
    embedded = [p for p in type_.properties if p.embedding is not None]
    if call.property is not None:
        near = find_closest(call.property, [p.name for p in embedded])
        embedded = [p for p in embedded if p.name == call.property]
        if not embedded:
            raise MissingError.embedding_not_declared(type_.name, call.property, near)
    if not embedded:
        raise MissingError.embedding_not_declared(type_.name, None, None)
    return type_, embedded


class _EmbedRun:
    """A run over the properties of a type, which collects the commits it makes."""

    def __init__(
        self, session: Session, call: EmbedCall, provider: Provider, progress: Callable[[EmbedProgress], None]
    ) -> None:
        self.session = session
        self.call = call
        self.provider = provider
        self.progress = progress
        self.commits: list[str] = []

    def fill(self, prop: Property, limit: int | None) -> EmbeddedProperty:
        """Compute one property of the rows without a vector, up to a limit."""
        ids, without_text = self._find_waiting(prop)
        selected = ids if limit is None else ids[: max(limit, 0)]
        embedded = 0
        if not self.call.dry_run:
            self.progress(EmbedProgress(property=prop.name, done=0, total=len(selected)))
            for start in range(0, len(selected), self.call.batch):
                self.session.check_cancelled()
                batch = selected[start : start + self.call.batch]
                embedded += self._embed_batch(prop.name, batch)
                self.progress(EmbedProgress(property=prop.name, done=start + len(batch), total=len(selected)))
        return EmbeddedProperty(
            property=prop.name,
            source=_get_source(prop),
            waiting=len(ids),
            embedded=embedded,
            without_text=without_text,
        )

    def _find_waiting(self, prop: Property) -> tuple[list[str], int]:
        """Return the ids of the rows to compute, ascending, and the number of rows without a text."""
        head = self.session.head()
        type_, _ = _select_properties(self.session.load_catalog(head.snapshot), self.call)
        table = open_whole_tables(self.session, head.snapshot).open_table(type_.table_key)
        ids: list[str] = []
        without_text = 0
        columns = [ID, _get_source(prop), prop.name]
        for batch in table.iter_batches(columns, batch_rows=_SCAN_ROWS):
            self.session.check_cancelled()
            rows = _select_missing(pa.Table.from_batches([batch]), prop, is_all=self.call.all)
            has_text = _has_text(rows.column(_get_source(prop)))
            without_text += rows.num_rows - (pc.sum(has_text).as_py() or 0)
            ids += rows.filter(has_text).column(ID).to_pylist()
            if self.session.watch is not None:
                self.session.watch.check_size(len(ids) * _ID_BYTES, f"the ids of {len(ids):,} rows that wait")
        return sorted(ids), without_text

    def _embed_batch(self, name: str, ids: Sequence[str]) -> int:
        """Compute and commit a batch; return its number of rows. Retries reuse the vectors of unchanged texts."""
        cached: dict[str, NDArray[np.float32]] = {}
        return rerun_on_conflict(self.session.runtime, lambda: self._attempt(name, ids, cached))

    def _attempt(self, name: str, ids: Sequence[str], cached: dict[str, NDArray[np.float32]]) -> int:
        head = self.session.head()
        # Other writers may have changed the schema since the run began, so the property is looked up again.
        catalog = self.session.load_catalog(head.snapshot)
        type_, properties = _select_properties(catalog, self.call)
        prop = next((p for p in properties if p.name == name), None)
        if prop is None:
            raise MissingError.embedding_not_declared(type_.name, name, None)
        pending = WriteBuffer(View(catalog, open_whole_tables(self.session, head.snapshot)), self.session.blob_sources)
        table = pending.get_table(type_)
        stored = table.table.find_rows(ID, ids, table.schema.names, with_address=True)
        table.known.note(stored)
        # Rows may have got a vector, or lost their text, since their ids were collected.
        rows = _select_missing(reference_blobs(type_, stored), prop, is_all=self.call.all)
        rows = rows.filter(_has_text(rows.column(_get_source(prop))))
        if not rows.num_rows:
            return 0
        vectors = self._compute_vectors(prop, rows.column(_get_source(prop)).to_pylist(), cached)
        # A provider can be slow: nothing is published after the deadline.
        self.session.check_cancelled()
        position = rows.schema.get_field_index(name)
        table.put(rows.set_column(position, table.schema.field(name), _as_column(vectors)))
        self._commit(head, table)
        return int(rows.num_rows)

    def _compute_vectors(
        self, prop: Property, texts: Sequence[str], cached: dict[str, NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """Return the vector of each text; equal texts are sent to the provider once."""
        missing = [text for text in dict.fromkeys(texts) if text not in cached]
        cached.update(zip(missing, embed_texts(self.provider, prop, missing), strict=True))
        return np.stack([cached[text] for text in texts])

    def _commit(self, head: Head, table: PendingTable) -> None:
        key, ids = table.type.table_key, table.ids
        rows: pa.Table | RowStream = table.rows
        # The stored form contains the bytes of the row's blobs, so it is read batch by batch.
        if list_blob_properties(table.type):
            rows = RowStream(batches=table.iter_stored, keys=pa.array(ids, pa.string()))
        done = write_tables(
            self.session,
            [TableWrite(table_key=key, upsert=rows, located=table.located)],
            operation=OPERATION,
            actor=self.call.actor,
            base=head,
            # The vectors belong to the texts that were read: a row changed in the meantime is a conflict.
            requirements=[RowsUnchanged(table_key=key, ids=tuple(ids))],
            message=self.call.message,
            affected=(len(ids), 0),
        )
        if done is not None:
            self.commits.append(done.commit.id)


def _get_source(prop: Property) -> str:
    assert prop.embedding is not None  # noqa: S101 - `_select_properties` returns only such
    return prop.embedding.source


def _select_missing(rows: pa.Table, prop: Property, *, is_all: bool) -> pa.Table:
    """Return the rows whose vector has to be computed."""
    return rows if is_all else rows.filter(pc.is_null(rows.column(prop.name)))


def _has_text(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of texts with a visible character."""
    # No model accepts a text without one.
    return pc.fill_null(pc.not_equal(pc.utf8_trim_whitespace(texts), ""), fill_value=False)


def _as_column(vectors: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
