"""The note beside a manifest: the checksum of the file of its newest version, which no version can hold itself."""

from omnigraph.storage.checksums import format_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_note_key
from omnigraph.storage.object_store import ObjectMissingError

MAX_READ_ATTEMPTS, WAIT_SECONDS = 4, 0.02
"""How often a note that is not whole is looked at: a writer at work makes it in some 20 µs, and the next much later."""


def read_note(store: GraphStorage, path: str) -> tuple[int, str]:
    """Return the version and the checksum that are noted; version 0 when there is no note, or it is damaged."""
    if store.local is None:
        return 0, ""
    try:
        return _decode(bytes(store.local.get_derived(build_note_key(path))))
    except ObjectMissingError:
        return 0, ""


def is_note_damaged(store: GraphStorage, path: str) -> bool:
    """Return whether there is a note that is not whole, and stays so: a writer may just be writing one."""
    for left in reversed(range(MAX_READ_ATTEMPTS)):
        try:
            is_whole = store.local is None or _decode(bytes(store.local.get_derived(build_note_key(path))))[0] > 0
        except ObjectMissingError:
            return False
        if is_whole:
            return False
        if left:
            store.runtime.clock.sleep(WAIT_SECONDS)
    return True


def _decode(data: bytes) -> tuple[int, str]:
    """Return what a note says; version 0 when it is damaged."""
    try:
        note = data.decode("ascii")
    except UnicodeDecodeError:
        return 0, ""
    text, _, own = note.rpartition(" ")
    number, _, recorded = text.partition(" ")
    is_whole = own == format_checksum(text.encode()) and number.isdigit()
    return (int(number), recorded) if is_whole else (0, "")
