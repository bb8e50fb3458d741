"""Cache the keys of files that no index covers, so that a lookup reads only files that are new to this process.

The keys of a file are cached under the name of the file, which no other file ever gets: they are right for every
version that has it, on any branch, and whichever process wrote it. Which of its rows live is a fact of the version, and
is decided by its deletion file.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.concurrency import Lock, create_lock, create_rlock
from omnigraph.lru_cache import ByteCache, LruCache
from omnigraph.storage.arrow_buffers import read_numbers
from omnigraph.storage.carried_rows import CarriedRows
from omnigraph.storage.columnar_sets import Positions
from omnigraph.storage.fragment_list import Fragment
from omnigraph.storage.row_addresses import Addresses

ID = "id"
# Larger files are left to Lance: they come from bulk loads, so their number does not grow with small writes.
MAX_FILE_ROWS = 65_536
# A lookup compares all cached keys: 30 µs for 4,096 texts, 0.3 ms for 50,000, 2.5 ms for 250,000. With more rows than
# this in small files, the table is scanned.
MAX_CACHED_ROWS = 262_144
# Keys of files that the version does not have are dropped once there are more than this. Branches share the entry, and
# must not drop each other's keys in turn; but each write copies the list of files, and a row that is updated all the
# time is found in each of them: a lookup takes 0.4 ms with 64 such files, 0.5 ms with 512, 1.6 ms with 4,096.
MAX_STALE_ROWS = 16_384
MAX_STALE_FILES = 512
# Estimates of what a key takes in memory with its id, and the name of a file: without room for them nothing is read.
_BYTES_PER_ROW = 64
_BYTES_PER_FILE = 256
# The rows of a file that this process writes are kept whole up to these limits: their next update reads nothing.
MAX_KEPT_ROWS = 64
MAX_KEPT_BYTES = 16 * 1024
# Twice as many as the tail of a table usually has: each write copies the list.
MAX_KEPT_FILES = 128
# A file up to these limits, such as a compaction leaves, is read whole for the first of its rows that is needed: 64
# threads that updated different rows scanned it for each update, which took a third of their time. Reading the most
# that the limits allow takes 2 ms, a scan for one row 1.3 ms.
MAX_LOADED_ROWS = 4_096
MAX_LOADED_BYTES = 256 * 1024
# On an object store a request takes longer than to transfer this much, and reading parts of a file takes five.
MAX_FETCHED_ROWS = 65_536
MAX_FETCHED_BYTES = 1024 * 1024
# What is read of them at most: a compressed file may have many equal long texts.
MAX_READ_BYTES = 64 * 1024 * 1024
# The limit of all rows that are kept of one table.
MAX_TABLE_BYTES = 4 * 1024 * 1024
MAX_NOTED_DELETIONS = 4_096
# The rows of a page, which each compaction of the tail writes again. Those of larger files are left out first.
MAX_PAGE_ROWS = 32_768
# The tables whose looked-up columns are cached from rows that this process writes.
_MAX_TABLES = 1_024
# The tables whose last version is remembered, with each of their indexes.
_MAX_TAILS = 256

Files = tuple[str, ...]
# The offsets of deleted rows, by data files and deletion file. A file has another one after each delete.
_DeletedRows = dict[tuple[Files, str | None], Positions]
# The columns of the rows of a file, by Lance's number of each.
_Columns = dict[int, pa.Array]
# The rows of files, each with their size in memory: adding up all columns again took 0.7 ms for each write.
_KeptRows = dict[Files, tuple[_Columns, int]]
_NO_ROWS = np.empty(0, np.int64)


class KeyedTable(Protocol):
    """What a lookup needs of a table version."""

    path: str
    version: int

    def list_fragments(self) -> Sequence[Fragment]:
        """Return all fragments."""
        ...

    def find_field_number(self, column: str) -> int:
        """Return the number of a column, which no other column of the table ever gets."""
        ...

    def iter_written_rows(self, columns: Sequence[str], fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Yield all rows of some fragments in order, deleted ones too."""
        ...

    def read_deleted_offsets(self, fragments: Sequence[int]) -> list[Positions]:
        """Return the offsets of the deleted rows of some fragments."""
        ...

    def list_carried(self) -> Mapping[Files, CarriedRows]:
        """Return the rows of tiny files that were read with the version, by these files."""
        ...


class KeyPages(Protocol):
    """A store of the keys of files, one page for each table: a process that has just started reads none of them."""

    def read(self, path: str) -> "KeyPage | None":
        """Return the page of a table, None if there is none."""
        ...

    def write(self, table: KeyedTable, page: "KeyPage") -> None:
        """Replace the page of a table."""
        ...


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Columns of several files, one after the other, deleted rows included."""

    files: tuple[Files, ...]
    counts: tuple[int, ...]
    """The number of rows of each file."""
    columns: Mapping[int, pa.Array]
    """By Lance's number of each."""


class _KnownPages:
    """The pages of tables, and what this process knows of them: their files, and the numbers of their columns."""

    def __init__(self, pages: KeyPages) -> None:
        self._pages = pages
        self._known: LruCache[str, tuple[frozenset[Files], frozenset[int]]] = LruCache(_MAX_TABLES)

    def is_known(self, path: str) -> bool:
        """Return whether the page of a table was read or written here."""
        return self._known.get(path) is not None

    def read(self, path: str) -> KeyPage:
        """Return the page of a table, an empty one if there is none."""
        page = self._pages.read(path) or KeyPage((), (), {})
        self._known.put(path, (frozenset(page.files), frozenset(page.columns)))
        return page

    def write(self, table: KeyedTable, page: KeyPage) -> None:
        """Replace the page of a table."""
        self._pages.write(table, page)
        self._known.put(table.path, (frozenset(page.files), frozenset(page.columns)))

    def has(self, table: KeyedTable, fragments: Sequence[Fragment], numbers: Sequence[int]) -> bool:
        """Return whether the page has all these columns of those fragments of which the version carries none.

        The page is as this process knows it: another process, on another branch, may have written it since.
        """
        if not self.is_known(table.path):
            self.read(table.path)
        files, columns = self._known.get(table.path) or (frozenset(), frozenset())
        is_paged = columns.issuperset(numbers)
        carried = table.list_carried()
        return all(
            (is_paged and fragment.files in files)
            or (fragment.files in carried and carried[fragment.files].columns.keys() >= set(numbers))
            for fragment in fragments
        )


@dataclass(frozen=True, slots=True)
class _FileKeys:
    """A column of several files, one after the other, deleted rows included. Immutable."""

    values: pa.Array
    starts: Positions
    """The position of the first value of each file."""
    files: Mapping[Files, int]
    """The index of each file in `starts`, ascending."""

    @property
    def nbytes(self) -> int:
        """The approximate size in memory."""
        return _BYTES_PER_FILE * len(self.files) + int(self.values.nbytes)

    def add(self, files: Sequence[Files], counts: Sequence[int], values: pa.Array) -> "_FileKeys":
        """Return these values and those of more files, given with their numbers of rows."""
        first = len(self.files)
        starts = len(self.values) + np.cumsum([0, *counts[:-1]])
        return _FileKeys(
            pa.concat_arrays([self.values, values]),
            np.concatenate([self.starts, starts]).astype(np.int64),
            {**self.files, **{name: first + index for index, name in enumerate(files)}},
        )

    def keep(self, files: Collection[Files]) -> "_FileKeys":
        """Return the values of these files only."""
        ends = np.append(self.starts[1:], len(self.values))
        ranges = [(name, self.starts[index], ends[index]) for name, index in self.files.items() if name in files]
        parts = [self.values.slice(start, end - start) for _, start, end in ranges]
        empty = _FileKeys(self.values.slice(0, 0), np.empty(0, np.int64), {})
        return (
            empty.add([name for name, _, _ in ranges], list(map(len, parts)), pa.concat_arrays(parts))
            if parts
            else empty
        )

    def concat(self, files: Sequence[Files]) -> pa.Array:
        """Return the values of these files, one after the other."""
        ends = np.append(self.starts[1:], len(self.values)).tolist()
        places = [self.files[name] for name in files]
        return pa.concat_arrays([self.values[self.starts[place] : ends[place]] for place in places])

    def drop_stale(self, files: Mapping[Files, Fragment]) -> "_FileKeys":
        """Return the values of these files and of the newest others, up to half of what is allowed of them.

        Writers that began before a compaction still look up rows in the files that it has replaced.
        """
        sizes = np.diff(np.append(self.starts, len(self.values))).tolist()
        room = MAX_STALE_ROWS // 2
        kept = set(files)
        for name in islice((name for name in reversed(list(self.files)) if name not in files), MAX_STALE_FILES // 2):
            room -= sizes[self.files[name]]
            if room < 0:
                break
            kept.add(name)
        return self.keep(kept)

    def find(self, keys: pa.Array) -> tuple[Positions, Positions]:
        """Return the rows whose value is one of the keys: the index of the file, and the offset in it."""
        is_key = pc.is_in(_normalize_zeros(self.values), value_set=_normalize_zeros(keys), skip_nulls=True)
        at = read_numbers(pc.indices_nonzero(is_key)).astype(np.int64)
        indices = np.searchsorted(self.starts, at, side="right") - 1
        return indices, at - self.starts[indices]


def _normalize_zeros(values: pa.Array) -> pa.Array:
    """Replace every -0.0 by 0.0, which Arrow's hashes distinguish."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


@dataclass(frozen=True, slots=True)
class CachedHits:
    """The live rows of one version that have one of some keys, in the fragments whose keys are cached."""

    values: pa.Array
    ids: pa.Array | None
    """None if they are not cached."""
    addresses: Addresses
    uncached: tuple[int, ...]
    """The other fragments, which have to be searched in the table."""


@dataclass(frozen=True, slots=True)
class _Tail:
    """The small fragments of a version that an index does not cover, by their files, and the numbers of the others."""

    fragments: tuple[Fragment, ...] = ()
    files: Mapping[Files, Fragment] = field(default_factory=dict)
    rows: int = 0
    others: tuple[int, ...] = ()

    def extend(self, fragments: tuple[Fragment, ...], covered: Collection[int]) -> "_Tail":
        """Return the tail of a version with these fragments; if it only has more than this one, the others are kept."""
        # Equal fragments are the same objects, so comparing a thousand takes 5 µs.
        older = self if fragments[: len(self.fragments)] == self.fragments else _EMPTY_TAIL
        new = fragments[len(older.fragments) :]
        files = dict(older.files)
        others = list(older.others)
        for fragment in new:
            if fragment.rows <= MAX_FILE_ROWS and fragment.number not in covered:
                files[fragment.files] = fragment
            else:
                others.append(fragment.number)
        rows = older.rows + sum(fragment.rows for fragment in islice(files.values(), len(older.files), None))
        return _Tail(fragments, files, rows, tuple(others))


_EMPTY_TAIL = _Tail()


def is_small(rows: pa.Table) -> bool:
    """Return whether the rows of a file are kept in memory when it is written."""
    return bool(rows.num_rows <= MAX_KEPT_ROWS and rows.nbytes <= MAX_KEPT_BYTES)


class KeyCache:
    """The keys that lookups of one open graph have read, per table and column, in an LRU cache. Thread-safe."""

    def __init__(self, cache: ByteCache, pages: KeyPages | None = None, *, is_remote: bool = False) -> None:
        self._cache = cache
        # Whether each read is a request to an object store.
        self._is_remote = is_remote
        self._pages = None if pages is None else _KnownPages(pages)
        self._lock = create_lock()
        # By table, the columns that were looked up: their keys are taken from rows as they are written.
        self._columns: LruCache[str, dict[str, tuple[object, ...]]] = LruCache(_MAX_TABLES)
        # By table and the fragments that an index covers: the version that was looked up last.
        self._tails: LruCache[tuple[str, frozenset[int]], _Tail] = LruCache(_MAX_TAILS)
        # Held while the keys, rows or deletions of a table are read: the other threads that need them wait, and find
        # them. 64 threads of an object store read 452 files each, 29,000 requests, and stood still for nine seconds.
        self._loading: LruCache[tuple[object, ...], Lock] = LruCache(_MAX_TABLES)

    def find(self, table: KeyedTable, column: pa.Field, keys: pa.Array, covered: Collection[int]) -> CachedHits | None:
        """Find rows by the values of a column; fragments in `covered` have an index. None if they can't be cached.

        Files that are new to this process are read, all of them at once.
        """
        tail = self._find_tail(table, frozenset(covered))
        room = tail.rows * _BYTES_PER_ROW + len(tail.files) * _BYTES_PER_FILE
        if tail.rows > MAX_CACHED_ROWS or room > self._cache.limit_bytes:
            return None
        known = self._load(table, column, tail)
        if known is None:
            return None
        indices, offsets = known.find(keys.cast(column.type))
        numbers, inverse = np.unique(indices, return_inverse=True)
        names = list(known.files)
        # Other versions may have other files, of which the keys stay cached.
        hit = [tail.files.get(names[number]) for number in numbers.tolist()]
        is_live = np.array([fragment is not None for fragment in hit], np.bool_)[inverse]
        with_deletions = {index: fragment for index, fragment in enumerate(hit) if fragment and fragment.deleted}
        deleted = self._load_deleted(table, tail, list(with_deletions.values()))
        for index, deleted_offsets in zip(with_deletions, deleted, strict=True):
            is_live &= ~((inverse == index) & np.isin(offsets, deleted_offsets))
        starts = np.array([0 if fragment is None else fragment.number << 32 for fragment in hit], np.uint64)
        indices, offsets = indices[is_live], offsets[is_live]
        return CachedHits(
            known.values.take(pa.array(known.starts[indices] + offsets)),
            self._find_ids(table, [names[number] for number in numbers.tolist()], inverse[is_live], offsets),
            starts[inverse[is_live]] + offsets.astype(np.uint64),
            tail.others,
        )

    def list_columns(self, path: str) -> list[str]:
        """Return the names of the columns of a table that were looked up."""
        return list(self._columns.get(path) or {})

    def get_keys(self, path: str, files: Files) -> dict[int, pa.Array]:
        """Return what is cached of a file: each column that lookups use, by its number; nothing if one is missing."""
        key_columns: dict[int, pa.Array] = {}
        for key in (self._columns.get(path) or {}).values():
            known = cast("_FileKeys | None", self._cache.get(key))
            if known is None or files not in known.files:
                return {}
            key_columns[cast("int", key[2])] = known.concat([files])
        return key_columns

    def read_keys(self, table: KeyedTable, column: pa.Field, covered: Collection[int]) -> None:
        """Read the keys of files that are new to this process, as the next lookup would."""
        tail = _EMPTY_TAIL.extend(tuple(table.list_fragments()), covered)
        if tail.rows <= MAX_CACHED_ROWS:
            self._load(table, column, tail, drops_others=False)

    def read_rows(self, table: KeyedTable, columns: Sequence[pa.Field], fragments: Collection[int]) -> None:
        """Read the rows of small files whole, if rows of the table are kept at all."""
        if self._cache.get(("rows", table.path)) is not None:
            wanted = [(column, table.find_field_number(column.name)) for column in columns]
            chosen = [fragment for fragment in table.list_fragments() if fragment.number in fragments]
            self._load_rows(table, _choose_loadable(chosen, is_remote=self._is_remote), wanted)

    def note_written(self, table: KeyedTable, files: Files, rows: pa.Table) -> None:
        """Add the keys of a file that this process has just written for a table, so that no lookup has to read it."""
        if rows.num_rows > MAX_FILE_ROWS:
            return
        taken: dict[str, pa.Array] = {}
        if is_small(rows):
            # By the number of each column, as its name may be that of another column on another branch.
            taken = {name: _take_column(rows, name) for name in rows.schema.names}
            self._put_rows(table.path, files, {table.find_field_number(name): taken[name] for name in taken})
        for name, key in (self._columns.get(table.path) or {}).items():
            # On another branch, the name may be that of another column.
            if name not in rows.schema.names or key[2] != table.find_field_number(name):
                continue
            known = cast("_FileKeys | None", self._cache.get(key))
            if known is not None:
                values = taken[name] if name in taken else _take_column(rows, name)
                self._add(key, known, [files], [rows.num_rows], values.cast(known.values.type))

    def _put_rows(self, path: str, files: Files, columns: "_Columns") -> "_KeptRows":
        """Keep columns of a file, and those of the newest files before it: one entry for a table, of bounded size.

        Return what was kept before, with these columns.
        """
        key = ("rows", path)
        with self._lock:
            known = dict(cast("_KeptRows", self._cache.get(key) or {}))
            columns = {**known.pop(files, ({}, 0))[0], **columns}
            known[files] = columns, sum(column.nbytes + _BYTES_PER_FILE for column in columns.values())
            newest = dict(islice(known.items(), max(0, len(known) - MAX_KEPT_FILES), None))
            nbytes = sum(size for _, size in newest.values())
            while nbytes > MAX_TABLE_BYTES:
                nbytes -= newest.pop(next(iter(newest)))[1]
            self._cache.put(key, newest, nbytes)
        return known

    def get_deleted(self, path: str, fragment: Fragment) -> Positions | None:
        """Return the offsets of the deleted rows of a fragment with a deletion file, if they are known."""
        known = cast("_DeletedRows", self._cache.get(("deleted", path)) or {})
        return known.get((fragment.files, fragment.deletions))

    def note_deleted(self, table: KeyedTable, fragment: Fragment, name: str, offsets: Positions) -> None:
        """Add the deleted rows of a deletion file that this process has just written: those before it, and `offsets`.

        `fragment` is that of the version that the rows are deleted from.
        """
        key = ("deleted", table.path)
        with self._lock:
            known = cast("_DeletedRows", self._cache.get(key) or {})
            before = _NO_ROWS if fragment.deletions is None else known.get((fragment.files, fragment.deletions))
            # Those of a large file are read when they are needed: each write of a group has all before it again.
            if before is not None and len(before) < MAX_NOTED_DELETIONS:
                _put_deleted(self._cache, key, {**known, (fragment.files, name): np.union1d(before, offsets)})

    def take_rows(
        self, table: KeyedTable, addresses: Addresses, columns: Sequence[pa.Field], loaded: Sequence[pa.Field]
    ) -> tuple[dict[str, pa.Array], Addresses, Addresses]:
        """Return the columns of rows in files whose rows are kept, the addresses of these, and those of other rows.

        Of small files the `loaded` columns are read whole: none if a column is a blob, of which a scan returns
        descriptions.
        """
        wanted = [(column, table.find_field_number(column.name)) for column in columns]
        fragments = addresses >> np.uint64(32)
        numbers = np.unique(fragments).tolist()
        by_number = {fragment.number: fragment for fragment in table.list_fragments()}
        known = cast("_KeptRows", self._cache.get(("rows", table.path)) or {})
        if loaded:
            hit = [by_number[number] for number in numbers if not _has_columns(known, by_number[number].files, wanted)]
            numbered = [(column, table.find_field_number(column.name)) for column in loaded]
            known = self._load_rows(table, _choose_loadable(hit, is_remote=self._is_remote), numbered) or known
        parts: dict[str, list[pa.Array]] = {}
        taken = unread = np.empty(0, np.uint64)
        for number in numbers:
            part = addresses[fragments == number]
            files = by_number[number].files
            if not _has_columns(known, files, wanted):
                unread = np.concatenate([unread, part])
                continue
            kept, _ = known[files]
            offsets = pa.array(part & np.uint64(0xFFFFFFFF))
            for column, field_number in wanted:
                parts.setdefault(column.name, []).append(kept[field_number].take(offsets))
            taken = np.concatenate([taken, part])
        return {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}, taken, unread

    def _load_rows(
        self, table: KeyedTable, fragments: Sequence[Fragment], wanted: Sequence[tuple[pa.Field, int]]
    ) -> "_KeptRows | None":
        """Read columns of small files and keep them; return all rows that are kept, None if nothing was read."""
        if not fragments:
            return None
        with self._loading.get_or_build(("rows", table.path), create_rlock):
            known = cast("_KeptRows", self._cache.get(("rows", table.path)) or {})
            missing = [fragment for fragment in fragments if not _has_columns(known, fragment.files, wanted)]
            return self._read_rows(table, missing, wanted) if missing else known

    def _read_rows(
        self, table: KeyedTable, fragments: Sequence[Fragment], wanted: Sequence[tuple[pa.Field, int]]
    ) -> "_KeptRows | None":
        carried = table.list_carried()
        known: _KeptRows | None = None
        for fragment in fragments:
            found = _take_carried(carried.get(fragment.files), fragment, wanted)
            known = {**(known or {}), **self._put_rows(table.path, fragment.files, found)} if found else known
        fragments = [fragment for fragment in fragments if not _has_columns(known or {}, fragment.files, wanted)]
        if not fragments:
            return known
        names = [column.name for column, _ in wanted]
        rows = _read_whole(table, names, fragments, MAX_READ_BYTES)
        if rows is None:
            return None
        start = 0
        for fragment in fragments:
            part = rows.slice(start, fragment.rows)
            columns = {number: _take_column(part, column.name) for column, number in wanted}
            known = {**(known or {}), **self._put_rows(table.path, fragment.files, columns)}
            start += fragment.rows
        return known

    def _add(
        self, key: tuple[object, ...], known: _FileKeys, files: Sequence[Files], counts: Sequence[int], values: pa.Array
    ) -> _FileKeys:
        """Add the keys of files to what is cached, or to `known` if nothing is; return the result.

        Under a lock: if one of two writers lost what it adds, every later writer would read its file.
        """
        with self._lock:
            known = cast("_FileKeys | None", self._cache.get(key)) or known
            if any(name in known.files for name in files):
                # Another thread has added some of them in the meantime.
                added = _FileKeys(values.slice(0, 0), np.empty(0, np.int64), {}).add(files, counts, values)
                new = added.keep([name for name in files if name not in known.files])
                ends = np.append(new.starts[1:], len(new.values))
                files, counts, values = list(new.files), (ends - new.starts).tolist(), new.values
            if files:
                known = known.add(files, counts, values)
                self._cache.put(key, known, known.nbytes)
            return known

    def _find_tail(self, table: KeyedTable, covered: frozenset[int]) -> _Tail:
        """Return the small fragments without an index; those of the version before it are extended."""
        fragments = tuple(table.list_fragments())
        older = self._tails.get((table.path, covered)) or _EMPTY_TAIL
        if older.fragments == fragments:
            return older
        tail = older.extend(fragments, covered)
        self._tails.put((table.path, covered), tail)
        return tail

    def _load(self, table: KeyedTable, column: pa.Field, tail: _Tail, *, drops_others: bool = True) -> _FileKeys | None:
        """Return the keys of at least the files of a tail; None if a file does not have the rows that it should.

        Those of other files are dropped if there are many, unless the tail is that of a version to come.
        """
        key = ("keys", table.path, table.find_field_number(column.name), str(column.type))
        with self._lock:
            # A new mapping, because `note_written` iterates over the old one.
            self._columns.put(table.path, {**(self._columns.get(table.path) or {}), column.name: key})
        known = _get_keys(self._cache, key, column)
        if drops_others and (
            len(known.values) > 2 * tail.rows + MAX_STALE_ROWS or len(known.files) > len(tail.files) + MAX_STALE_FILES
        ):
            known = known.drop_stale(tail.files)
            self._cache.put(key, known, known.nbytes)
        if tail.files.keys() <= known.files.keys():
            return known
        with self._loading.get_or_build(key, create_rlock):
            known = _get_keys(self._cache, key, column)
            known = self._find_copies(table, column, key, known, tail)
            missing = {name: fragment for name, fragment in tail.files.items() if name not in known.files}
            if not missing:
                return known
            counts = [fragment.rows for fragment in missing.values()]
            rows = _read_whole(table, [column.name], list(missing.values()), self._cache.limit_bytes)
            if rows is None:
                return None
            values = _take_column(rows, column.name).cast(column.type)
            merged = self._add(key, known, list(missing), counts, values)
        # Another thread, on another branch, may have dropped files of this tail.
        return merged if tail.files.keys() <= merged.files.keys() else known.add(list(missing), counts, values)

    def _find_copies(
        self, table: KeyedTable, column: pa.Field, key: tuple[object, ...], known: _FileKeys, tail: _Tail
    ) -> _FileKeys:
        """Add the keys of files that were read with the version, or are in the page of the table."""
        copies = _take_copies(table, column, [files for files in tail.files if files not in known.files], tail)
        if copies:
            counts = [len(values) for values in copies.values()]
            known = self._add(key, known, list(copies), counts, pa.concat_arrays(copies.values()))
        # Once for all columns: each later one finds its keys in the cache.
        if self._pages is None or tail.files.keys() <= known.files.keys() or self._pages.is_known(table.path):
            return known
        page = self._pages.read(table.path)
        for field_number, values in page.columns.items():
            place = ("keys", table.path, field_number, str(values.type))
            before = known if place == key else _FileKeys(values.slice(0, 0), _NO_ROWS, {})
            added = self._add(place, before, list(page.files), list(page.counts), values)
            known = added if place == key else known
        return known

    def write_page(
        self, table: KeyedTable, columns: Sequence[pa.Field], find_covered: Callable[[str], Collection[int]]
    ) -> None:
        """Write the page of a table: the keys of the files that a new process would have to read.

        Nothing is written if the version carries the keys that the page lacks. `find_covered` returns the fragments in
        which an index finds the values of a column.
        """
        if self._pages is None or not columns:
            return
        covered = frozenset.intersection(*(frozenset(find_covered(column.name)) for column in columns))
        tail = _EMPTY_TAIL.extend(tuple(table.list_fragments()), covered)
        chosen: list[Fragment] = []
        room = MAX_PAGE_ROWS
        for fragment in sorted(tail.files.values(), key=lambda fragment: fragment.rows):
            room -= fragment.rows
            if room >= 0:
                chosen.append(fragment)
        files = tuple(fragment.files for fragment in chosen)
        numbers = [table.find_field_number(column.name) for column in columns]
        if self._pages.has(table, chosen, numbers):
            return
        loaded = [self._load(table, column, tail, drops_others=False) for column in columns]
        known = [keys for keys in loaded if keys is not None]
        if files and len(known) == len(columns):
            values = [keys.concat(files) for keys in known]
            page = KeyPage(files, tuple(fragment.rows for fragment in chosen), dict(zip(numbers, values, strict=True)))
            self._pages.write(table, page)

    def _find_ids(
        self, table: KeyedTable, files: Sequence[Files], positions: Positions, offsets: Positions
    ) -> pa.Array | None:
        """Return the ids of rows, given by the positions of their files in a list and their offsets, if cached."""
        known = cast("_FileKeys | None", self._cache.get((self._columns.get(table.path) or {}).get(ID, ())))
        if known is None:
            return None
        # Once for each file: the node with most edges may have thousands of rows in a file.
        indices = np.array([known.files.get(name, -1) for name in files], np.int64)[positions]
        if (indices < 0).any():
            return None
        return known.values.take(pa.array(known.starts[indices] + offsets))

    def _load_deleted(self, table: KeyedTable, tail: _Tail, fragments: Sequence[Fragment]) -> list[Positions]:
        """Return the offsets of the deleted rows of each fragment, by the name of its deletion file."""
        if not fragments:
            return []
        key = ("deleted", table.path)
        known = cast("_DeletedRows", self._cache.get(key) or {})
        missing = [f for f in fragments if (f.files, f.deletions) not in known]
        if missing:
            with self._loading.get_or_build(key, create_rlock):
                known = known | cast("_DeletedRows", self._cache.get(key) or {})
                missing = [f for f in missing if (f.files, f.deletions) not in known]
                read = table.read_deleted_offsets([fragment.number for fragment in missing]) if missing else []
                loaded: _DeletedRows = {(f.files, f.deletions): rows for f, rows in zip(missing, read, strict=True)}
                with self._lock:
                    known = cast("_DeletedRows", self._cache.get(key) or {}) | known
                    _put_deleted(
                        self._cache, key, {f: rows for f, rows in known.items() if f[0] in tail.files} | loaded
                    )
            known = known | loaded
        return [known[fragment.files, fragment.deletions] for fragment in fragments]


def _get_keys(cache: ByteCache, key: tuple[object, ...], column: pa.Field) -> _FileKeys:
    known = cast("_FileKeys | None", cache.get(key))
    return _FileKeys(pa.array([], column.type), np.empty(0, np.int64), {}) if known is None else known


def _put_deleted(cache: ByteCache, key: tuple[object, ...], known: "_DeletedRows") -> None:
    # Those that are gone come first.
    kept = dict(islice(known.items(), max(0, len(known) - MAX_STALE_FILES), None))
    cache.put(key, kept, sum(offsets.nbytes + _BYTES_PER_FILE for offsets in kept.values()))


def _choose_loadable(fragments: Sequence[Fragment], *, is_remote: bool) -> list[Fragment]:
    """Return those whose file is so small that it is read whole for a few of its rows."""
    rows, nbytes = (MAX_FETCHED_ROWS, MAX_FETCHED_BYTES) if is_remote else (MAX_LOADED_ROWS, MAX_LOADED_BYTES)
    return [fragment for fragment in fragments if fragment.rows <= rows and 0 < fragment.nbytes <= nbytes]


def _has_columns(known: "_KeptRows", files: Files, wanted: Sequence[tuple[pa.Field, int]]) -> bool:
    """Return whether columns of a file are kept, given with Lance's number of each."""
    kept, _ = known.get(files, ({}, 0))
    return all(number in kept and kept[number].type == column.type for column, number in wanted)


def _read_whole(
    table: KeyedTable, columns: Sequence[str], fragments: Sequence[Fragment], max_bytes: int
) -> pa.Table | None:
    """Read columns of files, deleted rows too.

    None if they are larger than their files let expect, or lack rows: a read of the table itself takes less memory, and
    reports what is wrong with it.
    """
    batches = []
    for batch in table.iter_written_rows(columns, [fragment.number for fragment in fragments]):
        max_bytes -= batch.nbytes
        if max_bytes < 0:
            return None
        batches.append(batch)
    is_whole = sum(batch.num_rows for batch in batches) == sum(fragment.rows for fragment in fragments)
    return pa.Table.from_batches(batches) if is_whole else None


def _take_copies(table: KeyedTable, column: pa.Field, wanted: Sequence[Files], tail: _Tail) -> dict[Files, pa.Array]:
    """Return a column of those files of which the version carries the rows."""
    number = table.find_field_number(column.name)
    carried = table.list_carried()
    columns = {files: carried[files].get_column(number, column.type) for files in wanted if files in carried}
    return {
        files: values
        for files, values in columns.items()
        if values is not None and len(values) == tail.files[files].rows
    }


def _take_carried(
    carried: CarriedRows | None, fragment: Fragment, wanted: Sequence[tuple[pa.Field, int]]
) -> "_Columns":
    """Return the columns of a file from a copy of its rows; nothing if one of them is missing."""
    if carried is None or carried.rows != fragment.rows:
        return {}
    columns = {number: carried.get_column(number, column.type) for column, number in wanted}
    found = {number: values for number, values in columns.items() if values is not None}
    return found if len(found) == len(columns) else {}


def _take_column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
