"""Restore missing and damaged files from a copy of the graph, such as a clone or a backup.

Every file of a retained state that is missing or differs from its recorded checksum is fetched from the same key of the
copy, verified, and put in place. Nothing else is changed: no commit is made, and the graph becomes what it was before
the damage, bit for bit. The files that a file names are known only once it can be read, so this works in rounds:
manifests, versions of tables, their files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from omnigraph.commit.branches import BranchRegistry
from omnigraph.commit.gc_plan import gather_histories
from omnigraph.commit.gc_retention import RetentionPolicy
from omnigraph.commit.key_index import KEY_BYTES
from omnigraph.commit.manifest_check import ManifestFaultKind, inspect_manifest, iter_own_commits
from omnigraph.commit.manifest_log import (
    Head,
    NotAGraphError,
    decode_sealed,
    expect_pins,
    open_version,
    read_head,
)
from omnigraph.commit.manifest_types import MAIN, Pin
from omnigraph.errors import BadArgumentError, OmnigraphError
from omnigraph.ops.check import open_fresh_session
from omnigraph.ops.clone import check_not_nested
from omnigraph.ops.repair_result import FileRepair, RepairOutcome
from omnigraph.ops.session import Session
from omnigraph.storage.cas_table_errors import DamagedError
from omnigraph.storage.checksum_lists import FileChecksum
from omnigraph.storage.checksums import (
    checksum_directory,
    checksum_file,
    is_same,
    parse_blob_checksum,
    parse_data_checksum,
    parse_deletion_checksum,
    parse_uuid_checksum,
)
from omnigraph.storage.file_fetch import COPY_MISMATCH, Fetcher, Verification, open_fetcher, verify_size
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.integrity_check import (
    DecodeResults,
    TableListing,
    find_column_faults,
    find_deletion_faults,
    find_footer_faults,
    inspect_version,
    list_table,
    translate_damage,
)
from omnigraph.storage.lance_table import LanceTable, find_index_mismatches, find_row_mismatches
from omnigraph.storage.layout import EDGES, MANIFEST, NODES, TABLE_ROOTS, build_version_key, format_version_name
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri
from omnigraph.storage.version_files import UnknownPartError
from omnigraph.storage.version_notes import read_note

# Six rounds can be needed: the version of a manifest, its rows, its journal, versions of tables, their files, and a
# last one that finds nothing.
MAX_ROUNDS = 10
_KEEP_ALL = RetentionPolicy(commits=2**62, since=datetime.min.replace(tzinfo=UTC))
_OLDER = "commits that were made after the copy are not in it"
_UNKNOWN = "no file left here shows that it belongs to this graph"


def repair_from(session: Session, uri: str, *, is_confirmed: bool, is_deep: bool) -> tuple[FileRepair, ...]:
    """Fetch missing and damaged files from a copy of the graph, or only report them without `is_confirmed`.

    Raises:
        BadArgumentError: The copy is of another graph, is the graph itself, or lies inside it.
        ForeignFileError: The copy contains a link, a pipe or a device.
        NotAGraphError: There is no graph at that URI.
    """
    source = GraphStorage(parse_uri(uri), session.runtime)
    check_not_nested(source.location, session.store.location)
    for error in (error for root in TABLE_ROOTS for error in source.find_foreign_files(root)):
        raise error
    _check_same_graph(session.store, source)
    repairs: dict[str, FileRepair] = {}
    matched: set[str] = set()
    with open_fetcher(source, session.store) as fetcher:
        for _ in range(MAX_ROUNDS):
            current = _RepairRound(
                open_fresh_session(session), source, fetcher, is_placed=is_confirmed, is_deep=is_deep
            )
            # Files that matched their checksums in an earlier round are not read again.
            current.session.store.verifier.trust(matched)
            current.run()
            repairs |= {repair.place: repair for repair in current.repairs}
            matched |= current.session.store.verifier.matched
            # Only a file that was put in place can reveal further ones.
            if not is_confirmed or all(repair.outcome is not RepairOutcome.PUBLISHED for repair in current.repairs):
                break
    return tuple(repairs.values())


def _check_same_graph(store: GraphStorage, source: GraphStorage) -> None:
    """Check that two graphs begin with the same commit or, if one can't be read, that they share data files."""
    source_manifest = inspect_manifest(source, MAIN, MANIFEST)
    if source_manifest.newest == 0:
        raise NotAGraphError(source.location.uri)
    manifest = inspect_manifest(store, MAIN, MANIFEST)
    first = _find_first_commit(manifest.head, store)
    source_first = _find_first_commit(source_manifest.head, source)
    if first is not None and source_first is not None:
        is_copy = first == source_first
    else:
        is_copy = bool(_list_unique_names(store) & _list_unique_names(source))
    if not is_copy:
        raise BadArgumentError.another_graph(store.location.uri, source.location.uri)


def _list_unique_names(store: GraphStorage) -> set[str]:
    """Return the keys of all data files; their names are unique across graphs."""
    keys = (info.key for root in (MANIFEST, NODES, EDGES) for info in store.objects.list_under(root))
    return {key for key in keys if "/data/" in key}


def _find_first_commit(head: Head | None, store: GraphStorage) -> str | None:
    if head is None:
        return None
    try:
        commits = list(iter_own_commits(head, store))
    except OmnigraphError:
        return None
    return commits[-1].id if commits and commits[-1].seq == 0 else None


@dataclass(slots=True)
class _RepairRound:
    """One round: check everything that can be read now, and fetch what is damaged."""

    session: Session
    source: GraphStorage
    fetcher: Fetcher
    is_placed: bool
    is_deep: bool
    repairs: list[FileRepair] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _listings: dict[str, TableListing] = field(default_factory=dict)
    _decoded: DecodeResults = field(default_factory=dict)

    def run(self) -> None:
        """Check manifests, and tables unless a file of main's manifest was replaced."""
        heads = self._check_manifests()
        # Main's manifest names the branches and tags, so after a change to it the next round starts again from there.
        placed = [repair.place for repair in self.repairs if repair.outcome is RepairOutcome.PUBLISHED]
        if any(place.startswith(f"{MANIFEST}/") for place in placed):
            return
        if MANIFEST not in heads:
            return
        for pin in self._list_pins(heads):
            self.session.check_cancelled()
            self._check_table(pin)

    def _fetch(self, key: str, owner: str, reason: str, verify: Verification, *, is_directory: bool = False) -> bool:
        """Fetch a file once; return whether it was put in place."""
        if key in self._seen:
            return False
        self._seen.add(key)
        self.session.check_cancelled()
        fetched = self.fetcher.fetch(key, verify, is_placed=self.is_placed, is_directory=is_directory)
        outcome = RepairOutcome.PUBLISHED if self.is_placed else RepairOutcome.PLANNED
        if fetched.trouble is not None:
            outcome = RepairOutcome.REFUSED
        self.repairs.append(
            FileRepair(
                owner=owner, place=key, reason=reason, nbytes=fetched.nbytes, outcome=outcome, trouble=fetched.trouble
            )
        )
        return outcome is RepairOutcome.PUBLISHED

    # --- manifests -------------------------------------------------------------------------------------

    def _check_manifests(self) -> dict[str, Head]:
        """Check every manifest reachable from main's through branches, tags, forks and merges; return their heads."""
        heads: dict[str, Head] = {}
        queue = [(MAIN, MANIFEST)]
        seen = {MANIFEST}
        while queue:
            branch, path = queue.pop()
            head = self._check_manifest(branch, path)
            if head is None:
                continue
            heads[path] = head
            new = [(name, other_path) for name, other_path in self._list_referenced(head) if other_path not in seen]
            seen |= {other_path for _, other_path in new}
            queue += new
        return heads

    def _list_referenced(self, head: Head) -> list[tuple[str, str]]:
        """Return the branch and path of each manifest that this one references."""
        manifest = head.snapshot.manifest
        referenced = [(branch.name, branch.path) for branch in manifest.live_branches.values()]
        referenced += [(tag.branch, tag.path) for tag in manifest.tags.values()]
        if manifest.fork is not None:
            referenced.append((manifest.fork.parent_branch, manifest.fork.parent_path))
        try:
            sources = [commit.merged_from for commit in iter_own_commits(head, self.session.store)]
        # The journal is damaged; its check has fetched what is missing.
        except OmnigraphError:
            sources = []
        # A branch that was merged and deleted may have been collected since.
        existing = [source for source in sources if source is not None and self._has_manifest(source.path)]
        return [*referenced, *((source.branch, source.path) for source in existing)]

    def _has_manifest(self, path: str) -> bool:
        return bool(self.session.store.objects.list_under(f"{path}/_versions"))

    def _check_manifest(self, branch: str, path: str) -> Head | None:
        owner = f"manifest of {branch}"
        inspection = inspect_manifest(self.session.store, branch, path)
        fault = inspection.fault
        if fault is not None:
            if "/data/" in fault.place:
                self._fetch(fault.place, owner, fault.reason, _build_data_verification(fault.place, None))
            else:
                # Without any version here, the newest of the copy is the best there is.
                number = inspection.newest or inspect_manifest(self.source, branch, path).newest
                key = f"{path}/{format_version_name(number)}"
                reason = fault.reason if inspection.newest else f"{fault.reason}: {_OLDER}"
                self._fetch(key, owner, reason, self._build_manifest_verification(path, number))
                if fault.kind is ManifestFaultKind.CONTENT:
                    self._fetch_head(path, number, owner, fault.reason)
        if inspection.head is None:
            return None
        self._check_journal(inspection.head, owner)
        return inspection.head

    def _fetch_head(self, path: str, number: int, owner: str, reason: str) -> None:
        """Fetch the newest rows of a manifest version that can be read but are inconsistent."""
        try:
            with translate_damage(path):
                key, size = open_version(self.session.store, path, number).list_files()[-1]
        except (OmnigraphError, LookupError):
            return
        self._fetch(key, owner, reason, _build_data_verification(key, size))

    def _build_manifest_verification(self, path: str, number: int) -> Verification:
        """Return a check of a manifest version's file: by the note of its checksum, else by the files it names."""

        def verify(copied: str) -> str | None:
            noted_version, recorded = read_note(self.session.store, path)
            if noted_version == number:
                return _find_difference(checksum_file(copied)[1], int(recorded, 16))
            return None if self._is_ours(path, number) else _UNKNOWN

        return verify

    def _is_ours(self, path: str, number: int) -> bool:
        """Return whether a manifest version of the copy is this graph's too.

        The number alone proves nothing, because a copy that is written to uses the same numbers. It is ours if the file
        of its newest rows exists here, or all table versions that its newest commit made.
        """
        try:
            table = open_version(self.source, path, number)
            commit = read_head(table).head_commit
        except OmnigraphError:
            return False
        stored = list_table(self.session.store, path).sizes
        if table.list_files()[-1][0] in stored:
            return True
        keys = [build_version_key(item.path, int(item.after)) for item in commit.changes if item.after is not None]
        return bool(keys) and all(self.session.store.objects.stat(key) is not None for key in keys)

    def _check_journal(self, head: Head, owner: str) -> None:
        path = head.table.path
        sizes = list_table(self.session.store, path).sizes
        files = head.table.list_files()
        # The last file holds the head itself, which the inspection has read.
        for index, (key, size) in enumerate(files[:-1]):
            reason = _find_size_fault(sizes.get(key), size)
            if reason is None:
                try:
                    with translate_damage(key):
                        decode_sealed(head, index)
                except OmnigraphError as error:
                    reason = str(getattr(error, "reason", error))
            if reason is not None:
                self._fetch(key, owner, reason, _build_data_verification(key, size))
        for run in head.snapshot.manifest.key_runs:
            key, size = f"{path}/{run.name}", run.keys * KEY_BYTES
            reason = _find_size_fault(sizes.get(key), size)
            if reason is not None:
                self._fetch(key, owner, reason, _build_size_verification(size))

    # --- tables ----------------------------------------------------------------------------------------

    def _list_pins(self, heads: dict[str, Head]) -> Iterator[Pin]:
        """Yield every table version of a retained state, once, with the checksum of its file if it is recorded."""
        pins = {(pin.path, pin.version): pin for head in heads.values() for pin in head.snapshot.pins.values()}
        expect_pins(self.session.store, pins.values())
        yield from pins.values()
        try:
            journals = gather_histories(BranchRegistry(self.session.log), heads[MANIFEST], (), _KEEP_ALL, {}, {})
            for path, names in journals.find_checksum_lists().items():
                self.session.store.verifier.lists.expect(path, names)
            retained = {(path, version) for path, versions in journals.find_versions().items() for version in versions}
            for history in journals.histories.values():
                for commit in history.iter_commits():
                    for change in commit.changes:
                        old = change.path if change.replaced is None else change.replaced.path
                        for path, version, sum_, rows in (
                            (change.path, change.after, change.sum_after, change.rows_after),
                            (old, change.before, change.sum_before, change.rows_before),
                        ):
                            key = (path, 0 if version is None else int(version))
                            if key in retained and key not in pins:
                                pins[key] = Pin(
                                    table_key=change.table_key, path=path, version=key[1], rows=rows, sum=sum_
                                )
                                yield pins[key]
        except OmnigraphError as error:
            # With repairs in this round, a part of the histories is damaged, and the next round continues.
            if not self.repairs:
                raise error from None

    def _check_table(self, pin: Pin) -> None:
        session = self.session
        key = build_version_key(pin.path, pin.version)
        verifier = session.store.verifier
        verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
        table = LanceTable(session.handles, pin.path, pin.version)
        mismatch = verifier.find_version_mismatch(pin.path, pin.version)
        if mismatch is not None:
            # The files that it names are checked in the next round.
            self._fetch(key, pin.table_key, mismatch.reason, self._build_version_verification(pin))
            return
        try:
            inspection = inspect_version(table, self._list_table(pin.path))
        except UnknownPartError:
            return
        version_fault = next((fault for fault in inspection.faults if fault.place == key), None)
        if version_fault is not None:
            self._fetch(key, pin.table_key, version_fault.reason, self._build_version_verification(pin))
            return
        faults = {fault.place: fault.reason for fault in inspection.faults}
        try:
            with translate_damage(pin.path):
                faults |= {item.key: item.reason for item in find_row_mismatches(table, table.list_fragments(), None)}
                faults |= {item.key: item.reason for item in find_index_mismatches(table, None)}
                # Without a recorded checksum only decoding shows damage.
                if not faults and (self.is_deep or pin.sum is None):
                    faults |= self._find_unrecorded(table)
        except DamagedError as error:
            faults.setdefault(error.place, error.reason)
        for place, fault in faults.items():
            self._fetch_part(pin, place, fault)

    def _list_table(self, path: str) -> TableListing:
        if path not in self._listings:
            self._listings[path] = list_table(self.session.store, path)
        return self._listings[path]

    def _find_unrecorded(self, table: LanceTable) -> dict[str, str]:
        """Return the files that can't be decoded, for versions without recorded checksums."""
        faults = [*find_footer_faults(table), *find_deletion_faults(table)]
        if not faults:
            faults += find_column_faults(table, self._decoded, self.session.check_cancelled)
        return {fault.place: fault.reason for fault in faults}

    def _fetch_part(self, pin: Pin, place: str, reason: str) -> None:
        """Fetch one file that a version names, or the directory of an index or of a data file's blobs."""
        name = place.rpartition("/")[2]
        lists = self.session.store.verifier.lists
        # A recorded list is best, then a checksum in the name, and the size if there is neither.
        listed = lists.find(place)
        if listed is not None:
            self._fetch(place, pin.table_key, reason, _build_listed_verification({"": listed}))
        elif below := lists.find_below(place):
            verify = _build_listed_verification({key.removeprefix(place): checksum for key, checksum in below})
            self._fetch(place, pin.table_key, reason, verify, is_directory=True)
        elif "/_indices/" in place:
            verify = _build_directory_verification(parse_uuid_checksum(name))
            self._fetch(place, pin.table_key, reason, verify, is_directory=True)
        elif "/_deletions/" in place:
            self._fetch(place, pin.table_key, reason, _build_checksum_verification(parse_deletion_checksum(place)))
        elif place.endswith(".blob"):
            self._fetch(place, pin.table_key, reason, _build_size_verification(None))
        elif "/data/" in place and not place.endswith(".lance"):
            recorded = parse_blob_checksum(f"{name}.lance")
            self._fetch(place, pin.table_key, reason, _build_directory_verification(recorded), is_directory=True)
        elif "/data/" in place:
            self._fetch(place, pin.table_key, reason, _build_data_verification(place, self._find_size(pin, name)))

    def _find_size(self, pin: Pin, name: str) -> int | None:
        dataset = self.session.handles.open(pin.path, pin.version)
        files = (file for fragment in dataset.get_fragments() for file in fragment.metadata.files)
        return next((file.file_size_bytes for file in files if str(file.path) == name), None)

    def _build_version_verification(self, pin: Pin) -> Verification:
        """Return a check of a table version's file: by its pin or a list; else the copy must be able to read it."""
        listed = self.session.store.verifier.lists.find(build_version_key(pin.path, pin.version))
        if pin.sum is None and listed is not None:
            return _build_listed_verification({"": listed})

        def verify(copied: str) -> str | None:
            if pin.sum is not None:
                return _find_difference(checksum_file(copied)[1], int(pin.sum, 16))
            try:
                with translate_damage(pin.path):
                    rows = LanceTable(TableCache(self.source, is_verifying=False), pin.path, pin.version).count()
            except DamagedError as error:
                return f"the copy can't read it either: {error.reason}"
            return None if rows == pin.rows else f"it has {rows:,} rows in the copy, but its pin says {pin.rows:,}"

        return verify


def _build_data_verification(key: str, size: int | None) -> Verification:
    recorded = parse_data_checksum(key)
    return _build_checksum_verification(recorded) if recorded is not None else _build_size_verification(size)


def _build_size_verification(size: int | None) -> Verification:
    return lambda copied: verify_size(copied, size)


def _build_checksum_verification(recorded: int | None) -> Verification:
    return lambda copied: None if recorded is None else _find_difference(checksum_file(copied)[1], recorded)


def _build_directory_verification(recorded: int | None) -> Verification:
    return lambda copied: None if recorded is None else _find_difference(checksum_directory(copied)[1], recorded)


def _build_listed_verification(listed: Mapping[str, FileChecksum]) -> Verification:
    """Return a check of a file, or of the files of a directory, against listed checksums by name suffix."""

    def verify(copied: str) -> str | None:
        try:
            is_whole = all(
                FileChecksum(*checksum_file(f"{copied}{suffix}")) == checksum for suffix, checksum in listed.items()
            )
        except FileNotFoundError:
            is_whole = False
        return None if is_whole else COPY_MISMATCH

    return verify


def _find_difference(checksum: int, recorded: int) -> str | None:
    return None if is_same(checksum, recorded) else COPY_MISMATCH


def _find_size_fault(size: int | None, expected: int | None) -> str | None:
    if size is None:
        return "it is missing"
    if expected is not None and size != expected:
        return f"it has {size:,} bytes, and should have {expected:,}"
    return None
