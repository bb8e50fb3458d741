"""Read the note beside a manifest: the checksum of its newest version's file, which can't contain its own."""

from omnigraph.storage.checksums import format_checksum
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import build_note_key
from omnigraph.storage.object_store import ObjectMissingError

# An incomplete note is read again: a writer completes it in about 20 µs, and writes the next one much later.
MAX_READ_ATTEMPTS = 4
WAIT_SECONDS = 0.02


def read_note(store: GraphStorage, path: str) -> tuple[int, str]:
    """Return the version and the checksum in the note; version 0 if there is no note, or it is damaged."""
    if store.local is None:
        return 0, ""
    try:
        return _decode(bytes(store.local.get_derived(build_note_key(path))))
    except ObjectMissingError:
        return 0, ""


def is_note_damaged(store: GraphStorage, path: str) -> bool:
    """Return whether there is a damaged note, and not one that a writer is completing."""
    for remaining in reversed(range(MAX_READ_ATTEMPTS)):
        try:
            is_whole = store.local is None or _decode(bytes(store.local.get_derived(build_note_key(path))))[0] > 0
        except ObjectMissingError:
            return False
        if is_whole:
            return False
        if remaining:
            store.runtime.clock.sleep(WAIT_SECONDS)
    return True


def _decode(data: bytes) -> tuple[int, str]:
    """Return the version and the checksum in a note; version 0 if it is damaged."""
    try:
        note = data.decode("ascii")
    except UnicodeDecodeError:
        return 0, ""
    # "<version> <checksum of its file> <checksum of the two before>"
    text, _, note_checksum = note.rpartition(" ")
    number, _, recorded = text.partition(" ")
    is_whole = note_checksum == format_checksum(text.encode()) and number.isdigit()
    return (int(number), recorded) if is_whole else (0, "")
