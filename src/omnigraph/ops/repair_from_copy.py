"""Put files back from a copy of the graph: a clone, or a backup.

Every file of a state that is kept, which is missing or is not what was recorded of it, is fetched from the same key of
the copy, verified, and put in place. Nothing else is changed: no commit is made, and the graph is what it was before it
was damaged, bit for bit. What one file names is only known once it can be read, so this goes round by round: manifests,
versions of tables, their files.
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
from omnigraph.errors import Kind, OmnigraphError
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

MAX_ROUNDS = 10
"""At most: the version of a manifest, its rows, its journal, versions of tables, their files, and a last look."""
_KEEP_ALL = RetentionPolicy(commits=2**62, since=datetime.min.replace(tzinfo=UTC))
_OLDER = "commits that were made after the copy are not in it"
_UNKNOWN = "nothing that is left here shows that it is this graph's"


class AnotherGraphError(OmnigraphError):
    """Files are to be fetched from a place that holds another graph."""

    kind = Kind.USAGE
    code = "another_graph"

    def __init__(self, uri: str, source: str) -> None:
        super().__init__(uri, source)
        self.uri, self.source = uri, source

    def __str__(self) -> str:
        return (
            f"{self.source} is no copy of {self.uri}: they do not begin with the same commit."
            " Name a clone or a backup of this very graph"
        )


def repair_from(session: Session, place: str, *, is_confirmed: bool, is_deep: bool) -> tuple[FileRepair, ...]:
    """Fetch what is missing or damaged from a copy of the graph, or only say what would be.

    Raises:
        AnotherGraphError: The copy is of another graph.
        NestedPlacesError: It is the graph itself, or inside of it.
        ForeignFileError: Something in the copy is a link, a pipe or a device.
        NotAGraphError: There is no graph at that place.
    """
    source = GraphStorage(parse_uri(place), session.runtime)
    check_not_nested(source.location, session.store.location)
    for error in (error for root in TABLE_ROOTS for error in source.find_foreign_files(root)):
        raise error
    _check_same_graph(session.store, source)
    done: dict[str, FileRepair] = {}
    matched: set[str] = set()
    with open_fetcher(source, session.store) as fetcher:
        for _ in range(MAX_ROUNDS):
            look = _RepairRound(open_fresh_session(session), source, fetcher, is_placed=is_confirmed, is_deep=is_deep)
            look.session.store.verifier.trust(matched)
            look.run()
            done |= {one.place: one for one in look.repairs}
            matched |= look.session.store.verifier.matched
            if not is_confirmed or all(one.outcome is not RepairOutcome.PUBLISHED for one in look.repairs):
                break
    return tuple(done.values())


def _check_same_graph(store: GraphStorage, source: GraphStorage) -> None:
    """Compare the commits that two graphs begin with; where that can't be read, names that are given only once."""
    there = inspect_manifest(source, MAIN, MANIFEST)
    if there.newest == 0:
        raise NotAGraphError(source.location.uri)
    here = inspect_manifest(store, MAIN, MANIFEST)
    first = [_find_first_commit(look.head, where) for look, where in ((here, store), (there, source))]
    if None not in first:
        is_copy = first[0] == first[1]
    else:
        is_copy = bool(_list_unique_names(store) & _list_unique_names(source))
    if not is_copy:
        raise AnotherGraphError(store.location.uri, source.location.uri)


def _list_unique_names(store: GraphStorage) -> set[str]:
    """Return the keys of all data files: no two are ever given the same name."""
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
    """One look at everything that can be read now."""

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
        """Look at manifests; at tables only if none of main's files had to be fetched."""
        heads = self._look_at_manifests()
        if any(one.place.startswith(f"{MANIFEST}/") and one.outcome is RepairOutcome.PUBLISHED for one in self.repairs):
            return
        if MANIFEST not in heads:
            return
        for pin in self._list_pins(heads):
            self.session.check_cancelled()
            self._look_at_table(pin)

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

    def _look_at_manifests(self) -> dict[str, Head]:
        """Look at every manifest that main's leads to, by way of branches, tags, forks and merges."""
        heads: dict[str, Head] = {}
        waiting, met = [(MAIN, MANIFEST)], {MANIFEST}
        while waiting:
            branch, path = waiting.pop()
            head = self._look_at_manifest(branch, path)
            if head is None:
                continue
            heads[path] = head
            fresh = [one for one in self._list_others(head) if one[1] not in met]
            met |= {path for _, path in fresh}
            waiting += fresh
        return heads

    def _list_others(self, head: Head) -> list[tuple[str, str]]:
        manifest = head.snapshot.manifest
        found = [(one.name, one.path) for one in manifest.live_branches.values()]
        found += [(one.branch, one.path) for one in manifest.tags.values()]
        if manifest.fork is not None:
            found.append((manifest.fork.parent_branch, manifest.fork.parent_path))
        try:
            merged = [one.merged_from for one in iter_own_commits(head, self.session.store)]
        except OmnigraphError:  # what is wrong with the journal was found by then
            merged = []
        # A branch that was merged and deleted may have been collected since.
        there = [one for one in merged if one is not None and self._has_manifest(one.path)]
        return [*found, *((one.branch, one.path) for one in there)]

    def _has_manifest(self, path: str) -> bool:
        return bool(self.session.store.objects.list_under(f"{path}/_versions"))

    def _look_at_manifest(self, branch: str, path: str) -> Head | None:
        store, owner = self.session.store, f"manifest of {branch}"
        look = inspect_manifest(store, branch, path)
        if look.fault is not None:
            place = look.fault.place
            if "/data/" in place:
                self._fetch(place, owner, look.fault.reason, _build_data_verification(place, None))
            else:
                number = look.newest or inspect_manifest(self.source, branch, path).newest
                key = f"{path}/{format_version_name(number)}"
                reason = look.fault.reason if look.newest else f"{look.fault.reason}: {_OLDER}"
                self._fetch(key, owner, reason, self._build_manifest_verification(path, number))
                if look.fault.kind is ManifestFaultKind.CONTENT:
                    self._fetch_head(path, number, owner, look.fault.reason)
        if look.head is None:
            return None
        self._look_at_journal(look.head, owner)
        return look.head

    def _fetch_head(self, path: str, number: int, owner: str, reason: str) -> None:
        """Fetch the rows of a version that can be read, and contradict themselves."""
        try:
            with translate_damage(path):
                key, size = open_version(self.session.store, path, number).list_files()[-1]
        except (OmnigraphError, LookupError):
            return
        self._fetch(key, owner, reason, _build_data_verification(key, size))

    def _build_manifest_verification(self, path: str, number: int) -> Verification:
        """Verify the file of a manifest's version by the note of its checksum, else by what is here that it names."""

        def verify(copied: str) -> str | None:
            noted, recorded = read_note(self.session.store, path)
            if noted == number:
                return _find_difference(checksum_file(copied)[1], int(recorded, 16))
            return None if self._is_ours(path, number) else _UNKNOWN

        return verify

    def _is_ours(self, path: str, number: int) -> bool:
        """Return whether a version of the copy is this graph's: numbers are used by each copy that is written to.

        It is when the file of its newest rows is here, or all versions of tables that its newest commit made.
        """
        try:
            table = open_version(self.source, path, number)
            commit = read_head(table).head_commit
        except OmnigraphError:
            return False
        here = list_table(self.session.store, path).sizes
        if table.list_files()[-1][0] in here:
            return True
        made = [build_version_key(one.path, int(one.after)) for one in commit.changes if one.after is not None]
        return bool(made) and all(self.session.store.objects.stat(key) is not None for key in made)

    def _look_at_journal(self, head: Head, owner: str) -> None:
        path, store = head.table.path, self.session.store
        sizes = list_table(store, path).sizes
        files = head.table.list_files()
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
        """Return every version of a table that a kept state has, once, with what is recorded of its file."""
        pins = {(pin.path, pin.version): pin for head in heads.values() for pin in head.snapshot.pins.values()}
        expect_pins(self.session.store, pins.values())
        yield from pins.values()
        try:
            journals = gather_histories(BranchRegistry(self.session.log), heads[MANIFEST], (), _KEEP_ALL, {}, {})
            for path, names in journals.find_checksum_lists().items():
                self.session.store.verifier.lists.expect(path, names)
            wanted = {(path, version) for path, versions in journals.find_versions().items() for version in versions}
            for line in journals.histories.values():
                for commit in line.iter_commits():
                    for change in commit.changes:
                        old = change.path if change.replaced is None else change.replaced.path
                        for path, version, sum_, rows in (
                            (change.path, change.after, change.sum_after, change.rows_after),
                            (old, change.before, change.sum_before, change.rows_before),
                        ):
                            key = (path, 0 if version is None else int(version))
                            if key in wanted and key not in pins:
                                pins[key] = Pin(
                                    table_key=change.table_key, path=path, version=key[1], rows=rows, sum=sum_
                                )
                                yield pins[key]
        except OmnigraphError as error:
            if not self.repairs:  # else a part of the histories is damaged, and was found before
                raise error from None

    def _look_at_table(self, pin: Pin) -> None:
        session, key = self.session, build_version_key(pin.path, pin.version)
        verifier = session.store.verifier
        verifier.expect(pin.path, pin.version, pin.sum, pin.rows)
        table = LanceTable(session.handles, pin.path, pin.version)
        mismatch = verifier.find_version_mismatch(pin.path, pin.version)
        if mismatch is not None:
            self._fetch(key, pin.table_key, mismatch.reason, self._build_version_verification(pin))
            return  # what it names is looked at in the next round
        try:
            look = inspect_version(table, self._list_table(pin.path))
        except UnknownPartError:
            return
        own = next((one.reason for one in look.faults if one.place == key), None)
        if own is not None:
            self._fetch(key, pin.table_key, own, self._build_version_verification(pin))
            return
        faults = {one.place: one.reason for one in look.faults}
        try:
            with translate_damage(pin.path):
                faults |= {one.key: one.reason for one in find_row_mismatches(table, table.list_fragments(), None)}
                faults |= {one.key: one.reason for one in find_index_mismatches(table, None)}
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
        """Return the files that can't be read, for versions of which nothing was recorded."""
        found = {one.place: one.reason for one in (*find_footer_faults(table), *find_deletion_faults(table))}
        return found or {
            one.place: one.reason for one in find_column_faults(table, self._decoded, self.session.check_cancelled)
        }

    def _fetch_part(self, pin: Pin, place: str, reason: str) -> None:
        """Fetch one file that a version names, or all of an index, or the blobs beside a data file."""
        name, lists = place.rpartition("/")[2], self.session.store.verifier.lists
        listed = lists.find(place)
        if listed is not None:
            self._fetch(place, pin.table_key, reason, _build_listed_verification({"": listed}))
        elif below := lists.find_below(place):
            verify = _build_listed_verification({key.removeprefix(place): one for key, one in below})
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
        """Verify the file of a table's version by its pin, or a list; where none records it, the copy must read it."""
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
            return None if rows == pin.rows else f"it has {rows:,} rows there, and its pin says {pin.rows:,}"

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
    """Verify a file, or the files of a directory, by what lists say of them; by the rest of their names."""

    def verify(copied: str) -> str | None:
        try:
            is_whole = all(FileChecksum(*checksum_file(f"{copied}{rest}")) == one for rest, one in listed.items())
        except FileNotFoundError:
            is_whole = False
        return None if is_whole else COPY_MISMATCH

    return verify


def _find_difference(found: int, recorded: int) -> str | None:
    return None if is_same(found, recorded) else COPY_MISMATCH


def _find_size_fault(found: int | None, expected: int | None) -> str | None:
    if found is None:
        return "it is missing"
    if expected is not None and found != expected:
        return f"it has {found:,} bytes, and should have {expected:,}"
    return None
