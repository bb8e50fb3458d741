"""The files of a graph on local disk: of which kind each is, and which states need it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lance

import omnigraph as og
from omnigraph.storage.layout import (
    AUDIT,
    DERIVED,
    MANIFEST,
    RECOVERY,
    SCHEMA_COPY,
    VERSION_NOTE,
    build_version_key,
    parse_version_number,
)
from rich_graph import runtime

TYPES = ("P", "N", "Knows")
NOBODY = "nobody"

UNNEEDED = {
    "version hint": "Lance's note of the newest version, which it compares with what is there",
    "version note": "the checksum of a manifest's newest version, with one of its own; without it nothing is compared",
    "transaction": "what Lance notes of each version it makes; no read opens it",
    "older manifest version": "a fence against stalled writers; only a repair goes back to it, reading it first",
    "older manifest head": "what such a version says",
    "older audit version": "what the audit was",
    "older key run": "an index of idempotency keys that a later one has taken the place of",
    "derived": "what queries have derived from tables; it has checksums of its own, and is derived again",
    "schema copy": "for people; it is never read back",
    "unnamed": "a file that no commit names: of an operation that died",
}
"""Kinds of files that change no answer whatever becomes of them, with the reason; a check may pass over them."""


@dataclass(frozen=True, slots=True, order=True)
class GraphFile:
    """A file of a graph."""

    kind: str
    needed_by: str
    """The first of main, side, old (a tag) and past (other commits) that needs it; or nobody."""
    place: str
    """Below the root."""

    @property
    def group(self) -> str:
        """Return what is counted together."""
        return self.kind if self.needed_by == NOBODY else f"{self.kind} of {self.needed_by}"

    @property
    def is_needed(self) -> bool:
        """Whether something is lost with it."""
        return self.kind not in UNNEEDED

    def must_be_found(self, way: str) -> bool:
        """Return whether a deep check has to name it; that a sidecar was there, nobody knows once it is gone."""
        return self.is_needed and (self.kind, way) != ("sidecar", "remove")


def list_files(root: Path) -> list[GraphFile]:
    """Classify every file of a graph.

    Raises:
        AssertionError: There is a file of no known kind.
    """
    known = {**_table_files(root), **_manifest_files(root)}
    files = []
    for path in root.rglob("*"):
        if path.is_file():
            place = path.relative_to(root).as_posix()
            kind, needed_by = known.get(place) or _kind_by_place(place)
            files.append(GraphFile(kind, needed_by, place))
    return sorted(files)


def _kind_by_place(place: str) -> tuple[str, str]:
    """Return the kind of a file that no state names, by its place alone."""
    parts = place.split("/")
    if parts[-1] == "latest_version_hint.json":
        return "version hint", NOBODY
    if parts[-1] == VERSION_NOTE:
        return "version note", NOBODY
    if "_transactions" in parts:
        return "transaction", NOBODY
    if place == SCHEMA_COPY:
        return "schema copy", NOBODY
    by_top = {DERIVED: "derived", RECOVERY: "sidecar", AUDIT: "older audit version"}
    if parts[0] in by_top:
        return by_top[parts[0]], NOBODY
    if parts[0] in ("nodes", "edges"):
        return "unnamed", NOBODY
    by_room = {"_versions": "older manifest version", "data": "older manifest head", "keys": "older key run"}
    assert parts[-2] in by_room, f"a file of a kind that damage is not tried on: {place}"
    return by_room[parts[-2]], NOBODY


def _manifest_files(root: Path) -> dict[str, tuple[str, str]]:
    known: dict[str, tuple[str, str]] = {}
    (branch,) = (root / "__branches").iterdir()
    for path, owner in ((MANIFEST, "main"), (f"__branches/{branch.name}", "side")):
        known[newest_version(root, path)] = ("manifest version", owner)
        *sealed, head = lance.dataset(str(root / path)).get_fragments()
        known[f"{path}/data/{head.metadata.files[0].path}"] = ("manifest head", owner)
        for fragment in sealed:
            known[f"{path}/data/{fragment.metadata.files[0].path}"] = ("sealed part", owner)
    with og.open_graph(str(root), read_only=True, runtime=runtime()) as graph:
        for path, owner in ((MANIFEST, "main"), (f"__branches/{branch.name}", "side")):
            for run in graph.snapshot(branch=owner).manifest.key_runs:
                known[f"{path}/{run.name}"] = ("key run", owner)
    known[newest_version(root, AUDIT)] = ("audit version", "main")
    for fragment in lance.dataset(str(root / AUDIT)).get_fragments():
        known[f"{AUDIT}/data/{fragment.metadata.files[0].path}"] = ("audit data", "main")
    return known


def newest_version(root: Path, path: str) -> str:
    """Return the place of the newest version file of a manifest."""
    newest = max((root / path / "_versions").glob("*.manifest"), key=lambda file: parse_version_number(file.name))
    return newest.relative_to(root).as_posix()


def _table_files(root: Path) -> dict[str, tuple[str, str]]:
    known: dict[str, tuple[str, str]] = {}
    with og.open_graph(str(root), read_only=True, runtime=runtime()) as graph:
        for owner, branch, snapshot in _states(graph):
            state = graph.snapshot(branch=branch, snapshot=snapshot)
            for name in TYPES:
                pin = next(pin for key, pin in state.pins.items() if key.endswith(f":{name}"))
                known.setdefault(build_version_key(pin.path, pin.version), ("table version", owner))
                table = graph.table(name, branch=branch, snapshot=snapshot)
                for kind, place in _files_of(root / pin.path, table):
                    known.setdefault(f"{pin.path}/{place}", (kind, owner))
    return known


def _states(graph: og.Graph) -> Iterator[tuple[str, str, str | None]]:
    yield "main", "main", None
    yield "side", "side", None
    yield "old", "main", "old"
    for branch in ("main", "side"):
        for commit in graph.commits(branch=branch):
            yield "past", branch, commit.id


def _files_of(root: Path, table: lance.LanceDataset) -> Iterator[tuple[str, str]]:
    for fragment in table.get_fragments():
        described = fragment.metadata
        for file in described.files:
            yield "data", f"data/{file.path}"
            for blob in (root / "data" / file.path.removesuffix(".lance")).glob("*"):
                yield "blob", blob.relative_to(root).as_posix()
        if described.deletion_file is not None:
            place = described.deletion_file.path(described.id)
            yield f"deletions {'bitmap' if place.endswith('.bin') else 'array'}", place
    for index in table.describe_indices():
        for segment in index.segments:
            for part in (root / "_indices" / str(segment.uuid)).iterdir():
                yield f"index {index.index_type.upper()} {part.name}", part.relative_to(root).as_posix()
