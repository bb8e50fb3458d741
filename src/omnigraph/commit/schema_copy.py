"""Write the readable copy of main's schema beside the tables. Users read it; the engine never does."""

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import MAIN
from omnigraph.errors import OmnigraphError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import SCHEMA_COPY
from omnigraph.telemetry import log as telemetry_log


def put_schema_copy(store: GraphStorage, text: str) -> None:
    """Write the copy of a schema that is about to be accepted. A failure is logged: no reader needs the copy."""
    try:
        store.objects.put(SCHEMA_COPY, text.encode())
    except OmnigraphError as error:
        telemetry_log.warning("the readable copy of the schema was not written: %s", error)


def write_schema_copy(log: ManifestLog, head: Head | None = None) -> None:
    """Write the accepted schema of a state of main, by default the newest; other branches have no copy.

    A failure is logged and not raised: the commit that changed the schema is visible already.
    """
    if log.branch != MAIN:
        return
    try:
        # The head is read again after each write, so that of several concurrent writers the last one leaves the newest
        # schema.
        newest = head or log.head()
        written = None
        while newest.snapshot.manifest.schema.id != written:
            schema = newest.snapshot.manifest.schema
            log.store.objects.put(SCHEMA_COPY, schema.source.encode())
            written = schema.id
            newest = log.head()
    except OmnigraphError as error:
        telemetry_log.warning("the readable copy of the schema was not written: %s", error)
