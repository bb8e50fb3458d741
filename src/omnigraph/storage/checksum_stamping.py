"""Rename the files of a staged write so that their names carry checksums, before any version names them.

Local disk only: on an object store a file can't be renamed, and its checksum is not known without reading it back.
Callers that track files for recovery get the new names before the rename, in case this process dies.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from omnigraph.storage.checksums import (
    checksum_directory,
    checksum_file,
    list_names,
    mark_read_version,
    mark_uuid,
    name_data_file,
)
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.layout import format_deletion_name
from omnigraph.storage.object_store import StoreUnavailableError

# A fragment in the JSON form of Lance.
FragmentJson = dict[str, Any]
# Receives the names, relative to the root, that files are about to get.
Announce = Callable[[Sequence[str]], None]


def stamp_fragment(
    store: GraphStorage,
    path: str,
    fragment: Mapping[str, Any],
    announce: Announce = lambda _: None,
    old_names: Collection[str] = (),
) -> FragmentJson:
    """Rename the data files of a fragment, except those in `old_names`, and return it with the new names."""
    if not store.location.is_local:
        return dict(fragment)
    files = [
        file
        if file["path"] in old_names
        else {**file, "path": _stamp_data_file(store, path, str(file["path"]), announce)}
        for file in fragment["files"]
    ]
    return {**fragment, "files": files}


def _stamp_data_file(store: GraphStorage, path: str, name: str, announce: Announce) -> str:
    directory = store.resolve_uri(f"{path}/data")
    stem = name.removesuffix(".lance")
    try:
        _, checksum = checksum_file(f"{directory}/{name}")
        has_blobs = os.path.isdir(f"{directory}/{stem}")  # noqa: PTH112 - plain strings on this path
        blob_checksum = checksum_directory(f"{directory}/{stem}")[1] if has_blobs else None
        stamped = name_data_file(name, checksum, blob_checksum)
        new_stem = stamped.removesuffix(".lance")
        blob_names = list_names(f"{directory}/{stem}") if has_blobs else []
        # Before the renames: after a crash in between, recovery must know both the old and the new names.
        announce([f"{path}/data/{stamped}", *(f"{path}/data/{new_stem}/{blob}" for blob in blob_names)])
        if has_blobs:
            os.rename(f"{directory}/{stem}", f"{directory}/{new_stem}")  # noqa: PTH104 - as above
        os.rename(f"{directory}/{name}", f"{directory}/{stamped}")  # noqa: PTH104 - as above
    except OSError as error:
        raise StoreUnavailableError(f"name a data file of {path}", str(error)) from error
    store.verifier.trust([f"{path}/data/{stamped}", *([f"{path}/data/{new_stem}"] if has_blobs else [])])
    return stamped


def stamp_deletions(store: GraphStorage, path: str, fragment: Mapping[str, Any]) -> FragmentJson:
    """Rename the deletion file of a fragment that has just lost rows, and return the fragment with the new name."""
    if not store.location.is_local:
        return dict(fragment)
    before = format_deletion_name(fragment)
    try:
        _, checksum = checksum_file(store.resolve_uri(f"{path}/{before}"))
        marked = {**fragment["deletion_file"], "read_version": mark_read_version(checksum)}
        stamped: FragmentJson = {**fragment, "deletion_file": marked}
        after = format_deletion_name(stamped)
        os.rename(store.resolve_uri(f"{path}/{before}"), store.resolve_uri(f"{path}/{after}"))  # noqa: PTH104 - plain strings
    except OSError as error:
        raise StoreUnavailableError(f"name a deletion file of {path}", str(error)) from error
    store.verifier.trust([f"{path}/{after}"])
    return stamped


def stamp_segment(store: GraphStorage, path: str, uuid: str) -> str:
    """Rename the directory of a new index segment, and return the UUID that is its new name."""
    if not store.location.is_local:
        return uuid
    directory = store.resolve_uri(f"{path}/_indices")
    try:
        _, checksum = checksum_directory(f"{directory}/{uuid}")
        stamped = mark_uuid(uuid, checksum)
        os.rename(f"{directory}/{uuid}", f"{directory}/{stamped}")  # noqa: PTH104 - plain strings on this path
    except OSError as error:
        raise StoreUnavailableError(f"name an index of {path}", str(error)) from error
    store.verifier.trust([f"{path}/_indices/{stamped}"])
    return stamped
