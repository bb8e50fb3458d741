"""Make a graph: from a schema to an empty graph that is there whole, or not at all."""

from contextlib import suppress

from omnigraph.commit.commit_plan import NewTable
from omnigraph.commit.manifest_log import ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import SchemaRecord, TableRecord
from omnigraph.commit.publisher import initialise
from omnigraph.commit.schema_copy import put_schema_copy, write_schema_copy
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.commit_signature import check_actor
from omnigraph.ops.session import Session
from omnigraph.runtime import Runtime
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType, Catalog, NodeType
from omnigraph.schema.catalog_codec import compute_fingerprint, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import RECOVERY, TOP_LEVEL, build_table_path
from omnigraph.storage.object_store import ObjectChangedError, ObjectExistsError
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri


class PlaceTakenError(OmnigraphError):
    """There is a graph already, or something that is not ours."""

    kind = Kind.CONFLICT
    code = "place_taken"

    def __init__(self, uri: str, found: str) -> None:
        super().__init__(uri, found)
        self.uri, self.found = uri, found

    def __str__(self) -> str:
        return f"{self.uri} holds {self.found}; choose an empty place, or remove it first"


class StoreUnfitError(OmnigraphError):
    """The store does not honour conditional puts, on which every commit rests."""

    kind = Kind.UNAVAILABLE
    code = "store_unfit"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri

    def __str__(self) -> str:
        return (
            f"the store of {self.uri} ignores `If-None-Match` or `If-Match`, so two writers could overwrite each other;"
            " keep graphs on one that honours them"
        )


def create(uri: str, schema: Source, *, actor: str, runtime: Runtime) -> Session:
    """A new graph at `uri`. What an init that died has left there is ignored: its tables are nobody's."""
    check_actor(actor)
    catalog = assign_identities(load_schema(schema), None)
    store = GraphStorage(parse_uri(uri), runtime)
    taken = _check_target(store)
    check_conditions(store)
    record = SchemaRecord(
        id=runtime.ids.ulid(),
        source=schema.text,
        catalog=encode_catalog(catalog).decode(),
        fingerprint=compute_fingerprint(catalog),
    )
    tables = [_build_new_table(type_, taken) for type_ in list_types(catalog)]
    put_schema_copy(store, schema.text)  # first: no recovery would write it for an init that dies
    try:
        log = initialise(store, tables, record, actor)
    except SwapLostError:
        write_schema_copy(ManifestLog(store))  # the copy above took the place of the other graph's
        raise PlaceTakenError(store.location.uri, "a graph that was made at the same time") from None
    store.keep_reserve()
    return Session(store=store, handles=TableCache(store), log=log)


def check_conditions(store: GraphStorage) -> None:
    """StoreUnfitError when the store ignores the conditions of a put: racing commits would overwrite each other."""
    objects, key = store.objects, f"{RECOVERY}/probe-{store.runtime.ids.ulid()}"
    objects.put_if_absent(key, b"first")
    try:
        with suppress(ObjectExistsError):
            objects.put_if_absent(key, b"second")
            raise StoreUnfitError(store.location.uri)
        with suppress(ObjectChangedError):
            objects.put_if_match(key, b"third", "no such tag")
            raise StoreUnfitError(store.location.uri)
    finally:
        objects.delete(key)


def list_types(catalog: Catalog) -> list[AnyType]:
    """Node types, then edge types, in declared order."""
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _check_target(store: GraphStorage) -> set[str]:
    """The table paths that are used up by an init that died; PlaceTakenError for anything else that is there."""
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


def _build_new_table(type_: AnyType, taken: set[str]) -> NewTable:
    kind = "node" if isinstance(type_, NodeType) else "edge"
    incarnation = 1
    while build_table_path(kind, type_.name, incarnation) in taken:
        incarnation += 1
    path = build_table_path(kind, type_.name, incarnation)
    record = TableRecord(table_key=type_.table_key, path=path, identity=type_.identity, incarnation=incarnation)
    return NewTable(record=record, schema=build_arrow_schema(type_))
