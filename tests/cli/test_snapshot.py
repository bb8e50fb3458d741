"""`omnigraph snapshot`: one state of a graph, as other tools can read it."""

import json
import shutil
import threading
from pathlib import Path

import lance
import msgspec
import pytest

from omnigraph.cli.main import main
from omnigraph.commit.manifest_codec import LAYOUT_KEY, STAMP_KEY
from omnigraph.commit.sidecar import Sidecar
from omnigraph.ops.operations import list_operations
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.layout import MANIFEST, build_sidecar_key
from omnigraph.storage.object_store import StoreUnavailableError
from worlds import TABLES, rows, seeded_world


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph with three commits: init, seed, and one more row in A."""
    session = seeded_world(tmp_path / "g")
    write_tables(
        session, [TableWrite(table_key="node:A", append=rows({"z": 26}))], operation="append", actor="a\u202eb"
    )
    return session


def put_sidecar(session: Session) -> Sidecar:
    sidecar = Sidecar(
        id="01JC0000000000000000000001",
        commit_id="01JC0000000000000000000002",
        branch="main",
        manifest_path=MANIFEST,
        base_seq=1,
        operation="load",
        actor="ada",
        started_at="2026-01-31T12:00:00Z",
    )
    session.store.objects.put(build_sidecar_key(sidecar.id), msgspec.json.encode(sidecar))
    return sidecar


def run_json(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    code = main(["snapshot", *arguments, "--json"])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    document: dict[str, object] = json.loads(captured.out)
    return document


def test_every_table_is_shown_with_its_pin(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(session.uri, capsys=capsys)

    pins = session.resolve_snapshot().pins
    assert document["tables"] == [
        {
            "table_key": key,
            "location": pins[key].path,
            "branch": "main",
            "table_branch": None,
            "version": str(pins[key].version),
            "table_version": str(pins[key].version),
            "rows": 5 if key == "node:A" else 4,
            "row_count": 5 if key == "node:A" else 4,
        }
        for key in TABLES
    ]


def test_the_state_is_named(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(session.uri, capsys=capsys)

    main(["version", "--json"])
    release = json.loads(capsys.readouterr().out)
    snapshot = session.resolve_snapshot()
    assert document["uri"] == session.uri
    assert document["branch"] == "main"
    assert document["commit_id"] == snapshot.commit.id
    assert document["manifest_version"] == snapshot.manifest_version == 3
    assert document["internal_schema_version"] == release["internal_schema_version"]
    assert document["operations"] == {"pending": [], "broken": []}


def test_another_tool_reads_the_rows_at_the_pin(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(session.uri, capsys=capsys)

    table = document["tables"][0]  # type: ignore[index]
    dataset = lance.dataset(f"{document['uri']}/{table['location']}", version=int(table["version"]))
    assert sorted(dataset.to_table()["id"].to_pylist()) == ["a", "b", "c", "d", "z"]


def test_the_text_is_aligned_and_can_not_drive_the_terminal(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["snapshot", session.uri])

    out = capsys.readouterr().out
    facts, _, table = out.partition("\n\n")
    pin = session.resolve_snapshot().pins["node:A"]
    assert code == 0
    assert facts.splitlines()[0] == f"graph     {session.uri}"
    assert facts.splitlines()[-1] == "manifest  version 3, internal-schema 4"
    assert "by        a<U+202E>b (append)" in facts
    assert table.splitlines()[0].split() == ["table", "location", "branch", "version", "rows"]
    assert table.splitlines()[1].split() == ["node:A", pin.path, "main", str(pin.version), "5"]
    assert len({line.rindex(line.split()[-1]) + len(line.split()[-1]) for line in table.splitlines()}) == 1


def test_an_older_state_is_found_by_its_commit(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    first = list(session.log.iter_history(session.head()))[-1]

    document = run_json(session.uri, "--snapshot", first.id, capsys=capsys)

    assert (document["commit_id"], document["manifest_version"]) == (first.id, 1)
    assert [table["rows"] for table in document["tables"]] == [0] * len(TABLES)  # type: ignore[attr-defined]


def test_an_older_state_is_found_by_its_time(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    seed = list(session.log.iter_history(session.head()))[1]

    document = run_json(session.uri, "--at", seed.at, capsys=capsys)

    assert document["commit_id"] == seed.id


def test_a_look_changes_nothing(session: Session, tmp_path: Path) -> None:
    session.store.objects.put(build_sidecar_key("broken"), b"not a sidecar")
    put_sidecar(session)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    code = main(["snapshot", session.uri])

    assert code == 0
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_an_operation_under_way_is_mentioned(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    sidecar = put_sidecar(session)

    document = run_json(session.uri, capsys=capsys)
    main(["snapshot", session.uri])

    (pending,) = document["operations"]["pending"]  # type: ignore[index]
    assert (pending["id"], pending["operation"], pending["actor"]) == (sidecar.id, "load", "ada")
    note = f"note: load {sidecar.id} by ada, since 2026-01-31T12:00:00Z, is running, or has just crashed\n"
    assert note in capsys.readouterr().out


def test_a_broken_sidecar_is_mentioned_and_blocks_nothing(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.store.objects.put(build_sidecar_key("broken"), b"{\x1b")

    code = main(["snapshot", session.uri])

    out = capsys.readouterr().out
    assert code == 0
    assert "note: the sidecar __recovery/broken.json can't be read, and blocks nothing: " in out
    assert "\x1b" not in out


def test_a_store_that_lists_no_sidecars_keeps_nobody_from_reading(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailableError("list `__recovery`", "it is down")

    monkeypatch.setattr("omnigraph.ops.operations.list_operations", fails)

    document = run_json(session.uri, capsys=capsys)
    main(["snapshot", session.uri])

    assert document["operations"] is None
    assert "note: the store does not list running operations" in capsys.readouterr().out


@pytest.mark.usefixtures("with_sidecars")
def test_a_running_write_of_two_tables_shows_up(session: Session) -> None:
    reached, go_on = threading.Event(), threading.Event()

    class Stopping:
        def reach(self, point: str) -> None:
            if point == "publish.armed":
                reached.set()
                assert go_on.wait(60)

    object.__setattr__(session.store.runtime, "faults", Stopping())
    writes = [TableWrite(table_key=key, append=rows({"y": 1})) for key in TABLES[:2]]
    writer = threading.Thread(target=write_tables, args=(session, writes), kwargs={"operation": "w", "actor": "bob"})
    writer.start()
    assert reached.wait(60)
    during = list_operations(session)
    go_on.set()
    writer.join()

    assert [(one.operation, one.actor) for one in during.pending] == [("w", "bob")]
    assert list_operations(session).pending == ()


# --- which graph, and what is refused --------------------------------------------------------------------


@pytest.mark.parametrize("way", ["argument", "option", "variable"])
def test_the_graph_is_named_in_one_of_three_ways(
    way: str, session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"argument": [session.uri], "option": ["--store", session.uri], "variable": []}[way]
    if way == "variable":
        monkeypatch.setenv("OMNIGRAPH_STORE", session.uri)

    document = run_json(*arguments, capsys=capsys)

    assert document["uri"] == session.uri


def test_what_is_typed_wins_over_the_variable(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMNIGRAPH_STORE", "elsewhere")

    assert run_json(session.uri, capsys=capsys)["uri"] == session.uri
    assert run_json("--store", session.uri, capsys=capsys)["uri"] == session.uri


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "name the graph: URI, --store URI"),
        (["g", "--store", "h"], "the graph is named twice"),
        (["g", "--snapshot", "x", "--at", "2026-01-31T12:00:00Z"], "give either --snapshot or --at"),
        (["g", "--at", "yesterday"], "`yesterday` is not a time with a time zone"),
        (["g", "--at", "2026-01-31T12:00:00"], "is not a time with a time zone"),
    ],
)
def test_a_wrong_call_is_a_usage_error(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)

    code = main(["snapshot", *arguments])

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments, found",
    [
        (["--snapshot", "01JC"], "`01JC` names no commit; use a commit id, a tag, or a manifest version"),
        (["--at", "1999-01-01T00:00:00Z"], "1999-01-01"),
    ],
)
def test_a_state_that_never_was_is_not_found(
    arguments: list[str], found: str, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["snapshot", session.uri, *arguments])

    assert code == 4
    assert found in capsys.readouterr().err


def test_what_is_no_graph_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["snapshot", str(tmp_path / "none"), "--json"])

    assert code == 4
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "not_a_graph"
    assert list(tmp_path.iterdir()) == []


def test_another_format_exits_6(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    head = session.head().table.read_head()
    shutil.rmtree(f"{session.uri}/{MANIFEST}")
    stamped = head.replace_schema_metadata({STAMP_KEY: b"5", LAYOUT_KEY: b"detached-pins"})
    lance.write_dataset(stamped, f"{session.uri}/{MANIFEST}")

    code = main(["snapshot", session.uri, "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 6
    assert (error["code"], error["kind"]) == ("format_refused", "corrupt")
    assert "Upgrade omnigraph first" in error["message"]
