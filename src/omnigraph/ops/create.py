"""Create an empty graph from a schema, atomically: it exists completely or not at all."""

from contextlib import suppress

from omnigraph.commit.commit_plan import NewTable
from omnigraph.commit.manifest_log import ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import SchemaRecord, TableRecord
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.commit.publisher import initialise
from omnigraph.commit.schema_copy import put_schema_copy, write_schema_copy
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.commit_signature import check_actor
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, NodeType
from omnigraph.schema.catalog_codec import compute_fingerprint, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, TOP_LEVEL, build_table_path
from omnigraph.storage.object_store import ObjectChangedError, ObjectExistsError
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri


class StoreUnfitError(OmnigraphError):
    """The store does not honour conditional puts, on which every commit depends."""

    kind = Kind.UNAVAILABLE
    code = "store_unfit"
    uri: str
    message = (
        "the store of {uri} ignores `If-None-Match` or `If-Match`, so two writers could overwrite each other;"
        " use a store that supports them"
    )


def create(uri: str, schema: Source, *, actor: str, runtime: Runtime) -> Session:
    """Create a graph at `uri`. Tables left there by an init that died are ignored, since no manifest names them.

    Raises:
        PlaceTakenError: The location is not empty.
        StoreUnfitError: The store ignores conditional puts.
    """
    check_actor(actor)
    catalog = assign_identities(load_schema(schema), None)
    store = GraphStorage(parse_uri(uri), runtime)
    used_paths = _check_target(store)
    check_conditions(store)
    record = SchemaRecord(
        id=runtime.ids.ulid(),
        source=schema.text,
        catalog=encode_catalog(catalog).decode(),
        fingerprint=compute_fingerprint(catalog),
    )
    tables = [_build_new_table(type_, used_paths) for type_ in catalog.types]
    # Before the manifest: if the init died after it, no recovery would write the copy.
    put_schema_copy(store, schema.text)
    try:
        log = initialise(store, tables, record, actor)
    except SwapLostError:
        # The copy above has overwritten that of the graph which won the race.
        write_schema_copy(ManifestLog(store))
        raise PlaceTakenError(store.location.uri, "a graph that was created at the same time") from None
    store.keep_reserve()
    return Session(store=store, handles=TableCache(store), log=log)


def check_conditions(store: GraphStorage) -> None:
    """Check that the store honours conditional puts, without which racing commits would overwrite each other.

    Raises:
        StoreUnfitError: It ignores the conditions.
    """
    objects = store.objects
    key = f"{RECOVERY}/probe-{store.runtime.ids.ulid()}"
    objects.put_if_absent(key, b"first")
    try:
        # Both puts must fail; one that succeeds shows that the store ignores its condition.
        with suppress(ObjectExistsError):
            objects.put_if_absent(key, b"second")
            raise StoreUnfitError(store.location.uri)
        with suppress(ObjectChangedError):
            objects.put_if_match(key, b"third", "no such tag")
            raise StoreUnfitError(store.location.uri)
    finally:
        objects.delete(key)


def _check_target(store: GraphStorage) -> set[str]:
    """Return the table paths that an init that died has used.

    Raises:
        PlaceTakenError: There is a graph, or anything else.
    """
    names = store.objects.list_children()
    foreign = sorted(set(names) - TOP_LEVEL)
    if foreign:
        raise PlaceTakenError(store.location.uri, f"`{foreign[0]}`, which is not part of a graph")
    if not names:
        return set()
    try:
        ManifestLog(store).head()
    except NotAGraphError:
        return {
            "/".join(info.key.split("/", 2)[:2])
            for kind in ("nodes", "edges")
            for info in store.objects.list_under(kind)
        }
    raise PlaceTakenError(store.location.uri, "a graph")


def _build_new_table(type_: AnyType, used_paths: set[str]) -> NewTable:
    kind = "node" if isinstance(type_, NodeType) else "edge"
    # A path is never used twice, so that a stalled cleanup can't meet a new table at the path of a dead one.
    incarnation = 1
    while build_table_path(kind, type_.name, incarnation) in used_paths:
        incarnation += 1
    path = build_table_path(kind, type_.name, incarnation)
    record = TableRecord(table_key=type_.table_key, path=path, identity=type_.identity, incarnation=incarnation)
    return NewTable(record=record, schema=build_arrow_schema(type_))
