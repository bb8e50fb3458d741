"""The readable copy of main's schema beside the tables, which nobody reads back."""

from omnigraph.commit.records import MAIN
from omnigraph.ops.session import Session
from omnigraph.storage.layout import SCHEMA_COPY
from omnigraph.storage.objects import StoreUnavailableError
from omnigraph.telemetry import log


def copy_schema(session: Session, text: str) -> None:
    """Write the copy after a commit that changed the schema of the session's branch; only main's has one."""
    if session.log.branch != MAIN:
        return
    try:
        session.store.objects.put(SCHEMA_COPY, text.encode())
    except StoreUnavailableError as error:
        log.warning("the readable copy of the schema was not written: %s", error)  # the schema is accepted
