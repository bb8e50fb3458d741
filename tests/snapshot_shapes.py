"""Shapes that other programs rely on: public classes, errors, findings, settings, and what is stored.

Stored shapes are listed by what they are called in the files, never by the class that holds them: a class may be
renamed, its fields never.
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

import errors_reference
import omnigraph
from door_calls import SCHEMA
from error_samples import sample
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.commit import digests, manifest_codec, recovery_log
from omnigraph.commit.checksummed_json import encode_with_checksum
from omnigraph.commit.manifest_types import (
    BranchRecord,
    Commit,
    Fork,
    GcHorizon,
    KeyIndex,
    KeyRun,
    Manifest,
    MergedFrom,
    Pin,
    PinChange,
    SchemaRecord,
    TableRecord,
    TagRecord,
)
from omnigraph.commit.purges import Purge
from omnigraph.commit.sidecar import CloneOrigin, Sidecar
from omnigraph.commit.task_journal import Note
from omnigraph.config.server import ServerConfig
from omnigraph.errors import OmnigraphError
from omnigraph.faults import POINTS
from omnigraph.json_struct import JsonStruct
from omnigraph.lang.source import Source
from omnigraph.ops.check_findings import CODES
from omnigraph.options import Maintenance, Options
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog_codec import compute_fingerprint, encode_catalog
from omnigraph.server.http.error_responses import find_status
from omnigraph.storage import layout

ROOT = Path(__file__).parents[1]
AT = "2026-01-31T12:00:00Z"
IDS = [f"01JC00000000000000000000{number:02d}" for number in range(20)]


# --- Python ---------------------------------------------------------------------------------------------------


def list_public_classes() -> Iterator[tuple[str, str]]:
    """Yield each public class with what its constructor takes, in order, or its members."""
    for name in sorted(omnigraph.__all__):
        thing = getattr(omnigraph, name)
        if isinstance(thing, type) and not issubclass(thing, OmnigraphError):
            yield name, "\n".join(_describe_class(thing))


def _describe_class(thing: type) -> Iterator[str]:
    if issubclass(thing, Enum):
        yield from (f"{member.name} = {member.value!r}" for member in thing)
    elif dataclasses.is_dataclass(thing):
        yield from (f"{field.name}: {_type_text(field.type)}{_default(field)}" for field in dataclasses.fields(thing))
    elif issubclass(thing, JsonStruct) and thing not in (Commit, PinChange):
        yield from (
            f"{field.name}: {_type_text(field.type)}{_default(field)}" for field in msgspec.structs.fields(thing)
        )
    elif issubclass(thing, msgspec.Struct):
        yield from (f"{field.name}{'' if field.required else ' = …'}" for field in msgspec.structs.fields(thing))
    public = [name for name in dir(thing) if not name.startswith("_") and callable(getattr(thing, name))]
    yield from (f"{name}()" for name in public if not hasattr(int, name) and not hasattr(str, name))


def _type_text(type_: object) -> str:
    return re.sub(
        r"\b[a-z_]+(?:\.\w+)*\.(?=[A-Za-z])", "", type_ if isinstance(type_, str) else inspect.formatannotation(type_)
    )


def _default(field: "dataclasses.Field[Any] | msgspec.structs.FieldInfo") -> str:
    missing = (dataclasses.MISSING, msgspec.NODEFAULT)
    if field.default not in missing:
        return f" = {_plain_value(field.default)!r}"
    return "" if field.default_factory in missing else " = …"


def _plain_value(value: object) -> object:
    """Return a value whose text is the same in every process."""
    if inspect.isfunction(value):
        return "a function"
    return value.value if isinstance(value, Enum) else value


# --- errors and findings --------------------------------------------------------------------------------------


def list_errors() -> Iterator[tuple[str, str]]:
    """Yield each error by its code: kind, exit code, HTTP status, what its constructor takes, its message and facts."""
    for code, error in errors_reference.cases():
        if error is OmnigraphError:
            continue
        example = sample(code, error)
        public = "public " if error.__name__ in omnigraph.__all__ else ""
        case = f".{code}" if code in error.variants else ""
        takes = error.variants[code].fields if case else inspect.signature(error).parameters
        lines = [
            f"kind {error.kind.value}, exit {EXIT_CODES[error.kind]}, HTTP {find_status(example)}",
            f"{public}class {error.__name__}{case}({', '.join(takes)})",
            str(example),
            json.dumps(example.facts(), sort_keys=True),
        ]
        yield code, "\n".join(lines)


def list_findings() -> Iterator[tuple[str, str]]:
    """Yield each finding of a check by its code: severity, meaning and way out."""
    for code, finding in CODES.items():
        yield code, f"{finding.severity.value}\n{finding.meaning}\n{finding.way_out}"


# --- settings -------------------------------------------------------------------------------------------------


def list_settings() -> Iterator[tuple[str, str]]:
    """Yield the settings of the engine and of a server with their defaults, and the environment variables."""
    yield "options", "\n".join(_fields(Options(maintenance=Maintenance.AUTO)))
    yield "server", "\n".join(_fields(ServerConfig(graphs=())))
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "omnigraph").rglob("*.py"))
    names = {name for text in sources for name in re.findall(r'"(OMNIGRAPH_[A-Z_]+)"', text)}
    yield "environment variables", "\n".join(sorted(names))
    yield "fault points", "\n".join(sorted(POINTS))


def _fields(value: object, prefix: str = "") -> Iterator[str]:
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # a dataclass, or it would have no settings
        one = getattr(value, field.name)
        if dataclasses.is_dataclass(one):
            yield from _fields(one, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name} = {_plain_value(one)!r}"


# --- what is stored -------------------------------------------------------------------------------------------


def list_stored_shapes() -> Iterator[tuple[str, str]]:
    """Yield what files of a graph hold: columns, a manifest's rows, an operation's objects, names below the root."""
    yield "columns of a manifest", _columns(manifest_codec.SCHEMA)
    catalog = load_schema(Source(SCHEMA, "schema.pg"))
    yield "catalog of a schema", _indented(encode_catalog(catalog))
    yield "fingerprint of a schema", compute_fingerprint(catalog)
    yield from ((f"columns of {node.name}", _columns(build_arrow_schema(node))) for node in catalog.nodes.values())
    yield from ((f"columns of {edge.name}", _columns(build_arrow_schema(edge))) for edge in catalog.edges.values())
    yield "columns of the audit of recoveries", _columns(recovery_log.SCHEMA)
    yield "rows of main's manifest", _rows(manifest_codec.encode_head(_main(), 7))
    yield "rows of a branch's manifest", _rows(manifest_codec.encode_head(_branch(), 3))
    yield "a digest of a commit", f"{digests.compute_digest(_commit(), 'parent', _schema(4))}"
    yield "an operation's sidecar", _indented(encode_with_checksum(_sidecar()))
    yield (
        "a sidecar of a clone",
        _indented(
            encode_with_checksum(
                msgspec.structs.replace(_sidecar(), origin=CloneOrigin(uri="s3://bucket/other", root=IDS[0]), phase=1)
            )
        ),
    )
    yield "a note of a task", _indented(encode_with_checksum(Note(files=("nodes/40d76f1f51639ec0/data/a.lance",))))
    names = {name: value for name, value in vars(layout).items() if name.isupper() and isinstance(value, str)}
    yield "names below the root", "\n".join(sorted(value for name, value in names.items() if not name.startswith("_")))
    yield (
        "paths",
        "\n".join(
            [
                layout.build_table_path("node", "Person"),
                layout.build_table_path("edge", "Knows", 2),
                layout.build_branch_path(IDS[0]),
                layout.build_sidecar_key(IDS[0]),
                layout.build_job_key(IDS[0], "scratch"),
            ]
        ),
    )


def _columns(schema: Any) -> str:
    lines = [
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'} {field.metadata or ''}" for field in schema
    ]
    return "\n".join(line.rstrip() for line in [*lines, str(schema.metadata or "")])


def _rows(table: Any) -> str:
    """Return rows without empty columns, their records as JSON in order of their fields."""
    rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    return "\n".join(json.dumps(row | _record(row)) for row in rows)


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    text = row.get("metadata", "")
    return {"metadata": json.loads(text)} if text.startswith("{") else {}


def _indented(data: bytes) -> str:
    return json.dumps(json.loads(data), indent=1)


def _schema(number: int) -> SchemaRecord:
    return SchemaRecord(id=IDS[number], source="node A {}", catalog="{}", fingerprint="f" * 64, same={5: 6})


def _change() -> PinChange:
    table = TableRecord(table_key="node:A", path="nodes/a", identity=1)
    return PinChange(
        table_key="node:A",
        path="nodes/a-2",
        before="1",
        after=str(2**63 + 1),
        rows_before=1,
        rows_after=2,
        replaced=table,
        branch_before="dev",
        sum_before="s1",
        sum_after="s2",
    )


def _commit() -> Commit:
    return Commit(
        id=IDS[1],
        parent=IDS[0],
        merged_parent=IDS[2],
        merged_from=MergedFrom(branch="dev", path="__branches/b", seq=4, digest="d"),
        seq=3,
        branch="main",
        actor="ada",
        at=AT,
        operation="merge",
        message="why",
        manifest_version=7,
        changes=(_change(),),
        schema_before=IDS[3],
        schema_after=IDS[4],
        idempotency_key="key",
        request="r",
        affected_nodes=1,
        affected_edges=2,
        summary={"A": {"read": 1}},
        purged=(Purge(table_key="node:A", path="nodes/a", property="p"),),
        digest="d",
    )


def _main() -> Manifest:
    tables = {
        key: TableRecord(table_key=key, path=f"nodes/{key[-1].lower()}", identity=number)
        for number, key in enumerate(("node:A", "node:B"))
    }
    pins = {
        key: Pin(table_key=key, path=table.path, version=2**63 + 1, rows=2, branch="dev", sum="s", lists=("l",))
        for key, table in tables.items()
    }
    branch = BranchRecord(
        name="dev",
        id=IDS[5],
        path="__branches/b",
        parent_branch="main",
        parent_commit=IDS[0],
        created_at=AT,
        created_by="ada",
    )
    tag = TagRecord(
        name="v1", commit_id=IDS[0], branch="main", path="__manifest", seq=0, created_at=AT, created_by="ada"
    )
    run = KeyRun(name="keys", keys=1, first_seq=0, last_seq=1, until=AT)
    return Manifest(
        schema=_schema(3),
        tables=tables,
        pins={"node:A": pins["node:A"]},
        dropped={"node:B": pins["node:B"]},
        head=IDS[1],
        commits=(_commit(),),
        old_schemas=(_schema(4),),
        branches={"dev": branch},
        tags={"v1": tag},
        gc_horizon=GcHorizon(epoch=1, lowest_version=2, staged_before=AT, kept_from=3, kept=((0, 1),)),
        keys=KeyIndex(legacy_before=1, runs=(run,)),
        sealed=("s",),
    )


def _branch() -> Manifest:
    fork = Fork(branch="dev", branch_id=IDS[5], parent_branch="main", parent_path="__manifest", commit_id=IDS[0], seq=2)
    first = Commit(id=IDS[1], parent=None, seq=0, branch="dev", actor="", at=AT, operation="branch", manifest_version=1)
    return Manifest(schema=_schema(3), tables={}, pins={}, head=IDS[1], commits=(first,), fork=fork)


def _sidecar() -> Sidecar:
    return Sidecar(
        id=IDS[6],
        commit_id=IDS[7],
        branch="main",
        manifest_path="__manifest",
        base_seq=3,
        operation="load",
        actor="ada",
        started_at=AT,
        files=("nodes/40d76f1f51639ec0/data/a.lance",),
    )
