"""The note beside a manifest: the checksum of the file of its newest version, which no version can hold itself."""

from omnigraph.storage.checksums import checksum_text
from omnigraph.storage.layout import version_note
from omnigraph.storage.objects import ObjectMissingError
from omnigraph.storage.store import Store


def read_note(store: Store, path: str) -> tuple[int, str] | None:
    """Return the number of the version that was noted last, and its checksum; None where there is no whole note."""
    if store.local is None:
        return None
    try:
        text, _, own = bytes(store.local.get_derived(version_note(path))).decode("ascii").rpartition(" ")
    except (ObjectMissingError, UnicodeDecodeError):
        return None
    number, _, recorded = text.partition(" ")
    return (int(number), recorded) if own == checksum_text(text.encode()) and number.isdigit() else None
