"""The digest of a commit: SHA-256 over its row, its parent's digest, and the schema that it accepted.

Commits chain by it: the digest of a head stands for its whole history. It says nothing of where the graph lies, and
nothing of registers of branches and tags, so a clone has the same. Through a commit's pins it covers their versions.

What is hashed is a canonical form, which is promised for good: JSON in ASCII, without spaces, with sorted keys. A
field that has its default is left out. So a field that is added later, with a default, changes no digest of today; the
default of a field, once stored, must never change.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256

import msgspec

from omnigraph.commit.manifest_types import RECORD, Commit, SchemaRecord

_FORM = "omnigraph commit 1"
"""The first thing that is hashed: another canonical form would have another name."""
# Made once: to make an encoder for each commit took a fifth of the time of a digest.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def add_digest(commit: Commit, parent: Commit | None, schema: SchemaRecord) -> Commit:
    """Return a new commit with its digest; as it is when its parent has none, as in histories of older releases.

    `schema` is the one of the state that the commit makes.
    """
    before = None if parent is None else parent.digest
    if before is None and not begins_chain(commit):
        return commit
    return msgspec.structs.replace(commit, digest=compute_digest(commit, before, schema))


def begins_chain(commit: Commit) -> bool:
    """Return whether a commit has a digest whatever its parent has: the first of a graph, or one that records it."""
    return commit.parent is None or commit.operation == RECORD


def covers_schema(commit: Commit) -> bool:
    """Return whether the digest of a commit covers the content of a schema: of one it accepts, or finds and records."""
    return commit.schema_after is not None or commit.operation == RECORD


def compute_digest(commit: Commit, parent_digest: str | None, schema: SchemaRecord | None) -> str:
    """Compute the digest of a commit's row: 43 characters of URL-safe base64."""
    row = _build_canonical_form(commit)
    row.pop("digest", None)
    accepted = _build_canonical_form(schema) if schema is not None and covers_schema(commit) else None
    text = _ENCODER.encode([_FORM, row, parent_digest, accepted])
    return urlsafe_b64encode(sha256(text.encode("ascii")).digest()).decode("ascii").rstrip("=")


def _build_canonical_form(record: msgspec.Struct) -> dict[str, object]:
    found = {}
    for name, default in _list_fields(type(record)):
        value = getattr(record, name)
        if value != default:
            found[name] = _to_plain(value)
    return found


def _to_plain(value: object) -> object:
    if isinstance(value, str | int):
        return value
    if isinstance(value, msgspec.Struct):
        return _build_canonical_form(value)
    if isinstance(value, tuple | list):
        return [_to_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _to_plain(one) for key, one in value.items()}
    return value


@cache
def _list_fields(record: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    """Return the fields of a stored struct with their defaults; one that is required has a default that nothing is."""
    return tuple((field.name, _get_default(field)) for field in msgspec.structs.fields(record))


def _get_default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
