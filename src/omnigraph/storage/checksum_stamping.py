"""Give the files of a staged write names that carry their checksums, before any version names them.

Only on local disk: on an object store a file can't be renamed, and its checksum is not known without reading it back.
Who is to know of a file in case this process dies is told its new name before it gets it.
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

FragmentJson = dict[str, Any]
"""Lance's JSON of a fragment."""
Announce = Callable[[Sequence[str]], None]
"""Takes the names, relative to the root, that files are about to get."""


def stamp_fragment(
    store: GraphStorage,
    path: str,
    fragment: Mapping[str, Any],
    announce: Announce = lambda _: None,
    known: Collection[str] = (),
) -> FragmentJson:
    """Rename the data files of a fresh fragment, but for those of the names `known`; return the fragment with them."""
    if not store.location.is_local:
        return dict(fragment)
    files = [
        file if file["path"] in known else {**file, "path": _stamp_data_file(store, path, str(file["path"]), announce)}
        for file in fragment["files"]
    ]
    return {**fragment, "files": files}


def _stamp_data_file(store: GraphStorage, path: str, name: str, announce: Announce) -> str:
    place = store.resolve_uri(f"{path}/data")
    stem = name.removesuffix(".lance")
    try:
        _, found = checksum_file(f"{place}/{name}")
        has_blobs = os.path.isdir(f"{place}/{stem}")  # noqa: PTH112 - plain strings on this path
        blobs = checksum_directory(f"{place}/{stem}")[1] if has_blobs else None
        stamped = name_data_file(name, found, blobs)
        new_stem = stamped.removesuffix(".lance")
        inside = list_names(f"{place}/{stem}") if has_blobs else []
        announce([f"{path}/data/{stamped}", *(f"{path}/data/{new_stem}/{one}" for one in inside)])
        if has_blobs:
            os.rename(f"{place}/{stem}", f"{place}/{new_stem}")  # noqa: PTH104 - as above
        os.rename(f"{place}/{name}", f"{place}/{stamped}")  # noqa: PTH104 - as above
    except OSError as error:
        raise StoreUnavailableError(f"name a data file of {path}", str(error)) from error
    store.verifier.trust([f"{path}/data/{stamped}", *([f"{path}/data/{new_stem}"] if has_blobs else [])])
    return stamped


def stamp_deletions(store: GraphStorage, path: str, fragment: Mapping[str, Any]) -> FragmentJson:
    """Rename the deletion file of a fragment that has just lost rows; return the fragment with its name."""
    if not store.location.is_local:
        return dict(fragment)
    before = format_deletion_name(fragment)
    try:
        _, found = checksum_file(store.resolve_uri(f"{path}/{before}"))
        marked = {**fragment["deletion_file"], "read_version": mark_read_version(found)}
        described: FragmentJson = {**fragment, "deletion_file": marked}
        after = format_deletion_name(described)
        os.rename(store.resolve_uri(f"{path}/{before}"), store.resolve_uri(f"{path}/{after}"))  # noqa: PTH104 - plain strings
    except OSError as error:
        raise StoreUnavailableError(f"name a deletion file of {path}", str(error)) from error
    store.verifier.trust([f"{path}/{after}"])
    return described


def stamp_segment(store: GraphStorage, path: str, uuid: str) -> str:
    """Rename the directory of a fresh index segment; return the UUID that is its name from now on."""
    if not store.location.is_local:
        return uuid
    place = store.resolve_uri(f"{path}/_indices")
    try:
        _, found = checksum_directory(f"{place}/{uuid}")
        stamped = mark_uuid(uuid, found)
        os.rename(f"{place}/{uuid}", f"{place}/{stamped}")  # noqa: PTH104 - plain strings on this path
    except OSError as error:
        raise StoreUnavailableError(f"name an index of {path}", str(error)) from error
    store.verifier.trust([f"{path}/_indices/{stamped}"])
    return stamped
