"""The note beside a manifest: the checksum of the file of its newest version, which no version can hold itself."""

from omnigraph.storage.checksums import checksum_text
from omnigraph.storage.layout import version_note
from omnigraph.storage.objects import ObjectMissingError
from omnigraph.storage.store import Store


def read_note(store: Store, path: str) -> tuple[int, str]:
    """Return the version and the checksum that are noted; version 0 when there is no note, or it is damaged."""
    if store.local is None:
        return 0, ""
    try:
        note = bytes(store.local.get_derived(version_note(path))).decode("ascii")
    except (ObjectMissingError, UnicodeDecodeError):
        return 0, ""
    text, _, own = note.rpartition(" ")
    number, _, recorded = text.partition(" ")
    is_whole = own == checksum_text(text.encode()) and number.isdigit()
    return (int(number), recorded) if is_whole else (0, "")
