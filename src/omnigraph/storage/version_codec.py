"""Decode and encode the files of table versions, so that a write of rows creates a version without Lance's commit.

A commit of Lance takes 1.6 ms of CPU and two files, most of it for work that a write of rows does not need: its new
version is that of its base, except for a few fragments. Everything else is copied byte by byte, also what this release
does not know. The format is Lance's: an optional list of indexes, the manifest, and a footer with the position of it.
Before the manifest are the rows of tiny files, see `carried_rows`, which Lance skips.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from omnigraph.storage.carried_rows import Carried, add_carried, decode_section, encode_section
from omnigraph.storage.protobuf import (
    Part,
    encode_bytes,
    encode_integer,
    encode_text,
    iter_parts,
    join_parts,
    read_integer,
)

# Fields of the manifest message of Lance.
FRAGMENTS = 2
_VERSION = 3
INDEX_SECTION = 6
_TIMESTAMP = 7
_READER_FLAGS, _WRITER_FLAGS = 9, 10
_HIGHEST_FRAGMENT = 11
_TRANSACTION_FILE = 12
_NEXT_ROW = 14
_TRANSACTION_SECTION = 23
# A version of ours has no transaction: the file repeats what the version says, and nothing reads it.
_REPLACED = (
    FRAGMENTS, _VERSION, INDEX_SECTION, _TIMESTAMP, _READER_FLAGS, _WRITER_FLAGS, _HIGHEST_FRAGMENT,
    _TRANSACTION_FILE, _NEXT_ROW, _TRANSACTION_SECTION,
)  # fmt: skip
# Fields of a fragment.
_FRAGMENT_ID = 1
_FRAGMENT_FILES = 2
_FRAGMENT_DELETIONS = 3
_FRAGMENT_ROWS = 4
_FRAGMENT_ROW_IDS = 5
_FRAGMENT_UPDATED_AT = 7
_FRAGMENT_CREATED_AT = 9
# Flags that a reader and a writer must know: some fragment has deleted rows; rows have stable ids; there are settings.
_HAS_DELETIONS = 1
_HAS_STABLE_ROW_IDS = 2
_HAS_SETTINGS = 8
_KNOWN_FLAGS = _HAS_DELETIONS | _HAS_STABLE_ROW_IDS | _HAS_SETTINGS
# At the end of the file: the position of the manifest, the version of the format, and a mark.
_FOOTER: Final = struct.Struct("<Q2H4s")
_MARK = b"LANC"
_FORMAT = (0, 2)
_LENGTH: Final = struct.Struct("<I")
_DETACHED: Final = 1 << 63
_MAX_NUMBER: Final = (1 << 32) - 1

# A fragment in the JSON form of Lance.
FragmentJson = Mapping[str, Any]


class UnknownFormatError(ValueError):
    """A version has a form that this module does not encode; Lance has to create its successor."""


class TooManyFragmentsError(ValueError):
    """A fragment would get a number that does not fit into 32 bits."""


@dataclass(frozen=True, slots=True)
class VersionContent:
    """The content of one version, with the parts that a write of rows changes taken apart."""

    number: int
    fragments: Mapping[int, bytes]
    """The encoded fragments by number, in their order."""
    with_deletions: frozenset[int]
    """The numbers of the fragments that have a deletion file."""
    highest: int
    """The highest number that a fragment has ever had; -1 if there was none."""
    next_row: int
    flags: tuple[int, int]
    others: tuple[Part, ...]
    """All other parts of the manifest."""
    has_indexes: bool
    indexes: bytes = field(default=b"", repr=False)
    """The list of indexes with its length, which is stored before the manifest."""
    carried: Carried = field(default_factory=dict, repr=False)
    """The rows of tiny files, encoded."""

    def encode_manifest(self, now: datetime) -> bytes:
        """Return the manifest, from which Lance opens the version without reading its file."""
        seconds, micros = divmod(int(now.timestamp() * 1_000_000), 1_000_000)
        timestamp = join_parts([encode_integer(1, seconds), encode_integer(2, micros * 1_000)])
        parts = [
            *self.others,
            # In one piece: sorting the parts of 200 fragments takes ten times as long.
            (FRAGMENTS, b"".join(self.fragments.values())),
            encode_integer(_VERSION, self.number),
            encode_bytes(_TIMESTAMP, timestamp),
            *(
                encode_integer(number, value)
                for number, value in zip((_READER_FLAGS, _WRITER_FLAGS), self.flags, strict=True)
            ),
            encode_integer(_NEXT_ROW, self.next_row),
        ]
        if self.has_indexes:
            # It starts at position 0, and a field that is present is different from one that is not.
            parts.append((INDEX_SECTION, bytes([INDEX_SECTION << 3, 0])))
        if self.highest >= 0:
            parts.append((_HIGHEST_FRAGMENT, bytes([_HIGHEST_FRAGMENT << 3]) + _encode_present(self.highest)))
        return join_parts(parts)

    def encode_file(self, manifest: bytes) -> bytes:
        """Return the file of the version."""
        carried = encode_section(self.carried)
        footer = _FOOTER.pack(len(self.indexes) + len(carried), *_FORMAT, _MARK)
        return b"".join((self.indexes, carried, _LENGTH.pack(len(manifest)), manifest, footer))

    def apply(
        self,
        number: int,
        written: Iterable[FragmentJson],
        updated: Iterable[FragmentJson],
        removed: Sequence[int],
        known_rows: Callable[[str], bytes | None] = lambda _: None,
    ) -> "VersionContent":
        """Return the version that a write of rows makes of this one.

        New fragments get the next numbers and row ids. Of an updated one only the deletion file is new. `known_rows`
        returns the encoded rows of a new file by its name, if they are known.

        Raises:
            UnknownFormatError: Lance has to create this version.
            TooManyFragmentsError: There are no more numbers.
        """
        gone = frozenset(removed)
        fragments = dict(self.fragments)
        for known in gone:
            fragments.pop(known, None)
        with_deletions = set(self.with_deletions.difference(removed))
        for fragment in updated:
            fragments[fragment["id"]] = _replace_deletions(fragments[fragment["id"]], fragment["deletion_file"])
            with_deletions.add(fragment["id"])
        highest, next_row = self.highest, self.next_row
        new_rows: dict[int, bytes] = {}
        for fragment in written:
            highest += 1
            if highest > _MAX_NUMBER:
                raise TooManyFragmentsError
            # Lance counts versions up, also from a detached one.
            fragments[highest] = _encode_fragment(fragment, highest, next_row, (self.number + 1) % (1 << 64))
            next_row += fragment["physical_rows"]
            rows = known_rows(fragment["files"][0]["path"])
            if rows is not None:
                new_rows[highest] = rows
        carried = (
            {number: rows for number, rows in self.carried.items() if number not in gone} if gone else self.carried
        )
        mask = _HAS_DELETIONS if with_deletions else 0
        return replace(
            self,
            number=number | _DETACHED,
            fragments=fragments,
            with_deletions=frozenset(with_deletions),
            highest=highest,
            next_row=next_row,
            flags=(self.flags[0] & ~_HAS_DELETIONS | mask, self.flags[1] & ~_HAS_DELETIONS | mask),
            carried=add_carried(carried, new_rows),
        )

    def settle(self, number: int, rewritten: Collection[int], carried: Carried) -> "VersionContent":
        """Return this version under another number, with `carried` rows, as far as it has their fragments.

        Lance records for each row in which version it was created, which nothing here reads: 38 bytes for each row
        that was written alone. Of the `rewritten` fragments, all rows get the same.
        """
        fragments = dict(self.fragments)
        for known in fragments.keys() & set(rewritten):
            fragments[known] = _unify_versions(fragments[known], (self.number + 1) % (1 << 64))
        return replace(
            self,
            number=number | _DETACHED,
            fragments=fragments,
            carried={known: rows for known, rows in carried.items() if known in fragments},
        )

    def isolate(self, fragment: int) -> "VersionContent":
        """Return a version with one of the fragments, without indexes, in which no row is deleted."""
        parts = [part for part in iter_parts(_read_message(self.fragments[fragment])) if part[0] != _FRAGMENT_DELETIONS]
        return replace(
            self,
            fragments={fragment: encode_bytes(FRAGMENTS, join_parts(parts))[1]},
            with_deletions=frozenset(),
            flags=(self.flags[0] & ~_HAS_DELETIONS, self.flags[1] & ~_HAS_DELETIONS),
            has_indexes=False,
            indexes=b"",
            carried={},
        )


def read_number(manifest: bytes) -> int:
    """Return the number of a version from its manifest.

    Raises:
        UnknownFormatError: It has features that this module does not know.
    """
    # Without taking fragments apart, of which there may be thousands.
    values = dict.fromkeys((_VERSION, _READER_FLAGS, _WRITER_FLAGS), 0)
    values |= {number: read_integer(data) for number, data in iter_parts(manifest) if number in values}
    _check_flags(values[_READER_FLAGS], values[_WRITER_FLAGS])
    return values[_VERSION]


def _check_flags(*flags: int) -> None:
    if not all(flag & _HAS_STABLE_ROW_IDS for flag in flags):
        raise UnknownFormatError("its rows have no stable ids")
    # Lance knows whether it may continue such a version.
    if any(flag & ~_KNOWN_FLAGS for flag in flags):
        raise UnknownFormatError(f"it has the features {flags}")


def decode_version(manifest: bytes) -> VersionContent:
    """Take a manifest of Lance apart; its list of indexes, if `has_indexes`, is added by `decode_indexes`.

    Raises:
        UnknownFormatError: The rows have no stable ids, or the version has features that this module does not know.
    """
    fragments: dict[int, bytes] = {}
    with_deletions = set()
    others: list[Part] = []
    values = dict.fromkeys((_VERSION, _READER_FLAGS, _WRITER_FLAGS, _NEXT_ROW), 0)
    highest = -1
    has_indexes = False
    for number, data in iter_parts(manifest):
        if number == FRAGMENTS:
            parts = dict(iter_parts(_read_message(data)))
            fragment = read_integer(parts[_FRAGMENT_ID]) if _FRAGMENT_ID in parts else 0
            fragments[fragment] = data
            if _FRAGMENT_DELETIONS in parts:
                with_deletions.add(fragment)
        elif number in values:
            values[number] = read_integer(data)
        elif number == _HIGHEST_FRAGMENT:
            highest = read_integer(data)
        elif number == INDEX_SECTION:
            has_indexes = True
        elif number not in _REPLACED:
            others.append((number, data))
    flags = values[_READER_FLAGS], values[_WRITER_FLAGS]
    _check_flags(*flags)
    return VersionContent(
        number=values[_VERSION],
        fragments=fragments,
        with_deletions=frozenset(with_deletions),
        highest=max([highest, *fragments]),
        next_row=values[_NEXT_ROW],
        flags=flags,
        others=tuple(others),
        has_indexes=has_indexes,
    )


def split_file(file: bytes) -> tuple[bytes, Carried]:
    """Return the manifest in the file of a version, and the rows that the file carries.

    Raises:
        UnknownFormatError: The file is not one of a version, or of another format.
    """
    try:
        position, *version, mark = _FOOTER.unpack_from(file, len(file) - _FOOTER.size)
        (size,) = _LENGTH.unpack_from(file, position)
    except (struct.error, OverflowError) as error:
        raise UnknownFormatError(str(error)) from error
    start = position + _LENGTH.size
    if mark != _MARK or tuple(version) != _FORMAT or start + size + _FOOTER.size != len(file):
        raise UnknownFormatError("it does not end as a version of Lance does")
    return file[start : start + size], decode_section(file, position)


def decode_indexes(file: bytes) -> bytes:
    """Return the list of indexes, with its length, from the file of a version that has one.

    Raises:
        UnknownFormatError: The file is not one of a version.
    """
    try:
        position, *_, mark = _FOOTER.unpack_from(file, len(file) - _FOOTER.size)
        (size,) = _LENGTH.unpack_from(file, position)
        parts = dict(iter_parts(file[position + _LENGTH.size : position + _LENGTH.size + size]))
        start = read_integer(parts[INDEX_SECTION])
        (size,) = _LENGTH.unpack_from(file, start)
    except (struct.error, ValueError, LookupError, OverflowError) as error:
        raise UnknownFormatError(str(error)) from error
    if mark != _MARK:
        raise UnknownFormatError("it does not end with the mark of Lance")
    return file[start : start + _LENGTH.size + size]


def _read_message(data: bytes) -> bytes:
    """Return the message in a part."""
    position = 1
    # The length is a varint: its last byte has no highest bit.
    while data[position] & 0x80:
        position += 1
    return data[position + 1 :]


def _encode_present(value: int) -> bytes:
    """Return an integer without its key, also 0, which an optional field stores."""
    return encode_integer(1, value)[1][1:] or b"\0"


def _replace_deletions(part: bytes, deletions: Mapping[str, Any]) -> bytes:
    """Return an encoded fragment with another deletion file."""
    parts = [other for other in iter_parts(_read_message(part)) if other[0] != _FRAGMENT_DELETIONS]
    return encode_bytes(FRAGMENTS, join_parts([*parts, _encode_deletions(deletions)]))[1]


def _unify_versions(part: bytes, version: int) -> bytes:
    """Return an encoded fragment whose rows were all created and updated in one version."""
    parts = list(iter_parts(_read_message(part)))
    versions = _encode_versions(read_integer(dict(parts)[_FRAGMENT_ROWS]), version)
    recorded = (_FRAGMENT_UPDATED_AT, _FRAGMENT_CREATED_AT)
    parts = [encode_bytes(number, versions) if number in recorded else (number, data) for number, data in parts]
    return encode_bytes(FRAGMENTS, join_parts(parts))[1]


def _encode_versions(rows: int, version: int) -> bytes:
    span = encode_bytes(1, encode_bytes(1, _encode_range(0, rows))[1])
    return encode_bytes(1, join_parts([span, encode_integer(2, version)]))[1]


def _encode_deletions(file: Mapping[str, Any]) -> Part:
    if file.get("base_id") is not None:
        raise UnknownFormatError("a deletion file is outside of the table")
    parts = [
        encode_integer(1, 0 if file["file_type"] == "array" else 1),
        encode_integer(2, file["read_version"]),
        encode_integer(3, file["id"]),
        encode_integer(4, file["num_deleted_rows"]),
    ]
    return encode_bytes(_FRAGMENT_DELETIONS, join_parts(parts))


def _encode_fragment(fragment: FragmentJson, number: int, first_row: int, version: int) -> bytes:
    """Return a new fragment, whose rows get the ids from `first_row` on."""
    if fragment.get("overlays") or fragment.get("deletion_file") or fragment.get("row_id_meta"):
        raise UnknownFormatError("a new fragment has more than data files")
    rows = fragment["physical_rows"]
    # Lance's sequence of numbers: one range, in a segment.
    row_ids = encode_bytes(1, encode_bytes(1, _encode_range(first_row, first_row + rows))[1])[1]
    versions = _encode_versions(rows, version)
    parts = [
        encode_integer(_FRAGMENT_ID, number),
        *(_encode_data_file(file) for file in fragment["files"]),
        encode_integer(_FRAGMENT_ROWS, rows),
        encode_bytes(_FRAGMENT_ROW_IDS, row_ids),
        encode_bytes(_FRAGMENT_UPDATED_AT, versions),
        encode_bytes(_FRAGMENT_CREATED_AT, versions),
    ]
    return encode_bytes(FRAGMENTS, join_parts(parts))[1]


def _encode_range(start: int, end: int) -> bytes:
    return join_parts([encode_integer(1, start), encode_integer(2, end)])


def _encode_data_file(file: Mapping[str, Any]) -> Part:
    if file.get("base_id") is not None:
        raise UnknownFormatError("a data file is outside of the table")
    parts = [
        encode_text(1, file["path"]),
        _encode_integers(2, file["fields"]),
        _encode_integers(3, file["column_indices"]),
        encode_integer(4, file["file_major_version"]),
        encode_integer(5, file["file_minor_version"]),
        encode_integer(6, file["file_size_bytes"] or 0),
    ]
    return encode_bytes(_FRAGMENT_FILES, join_parts(parts))


def _encode_integers(number: int, values: Sequence[int]) -> Part:
    """Return a repeated integer field, packed."""
    return encode_bytes(number, b"".join(map(_encode_present, values)))
