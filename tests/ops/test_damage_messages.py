"""An error of damage says which table and file, who needs it, what still works and what to do."""

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from mutating import run
from omnigraph.cli.main import main
from omnigraph.commit.manifest_codec import ManifestCorruptError
from omnigraph.errors import Kind
from omnigraph.graph.graph import Graph
from omnigraph.ops.damage_diagnosis import blame_damage
from omnigraph.storage.layout import build_version_key
from upkeep_calls import eager, opened
from worlds import runtime

ALL = "query q() { match { $p: P } return { $p.name, $p.age, $p.mail, $p.spot } }"
TITLES = "query q() { match { $c: C } return { $c.title } }"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("whole") / "g")


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    with without_checksums():
        return harm.made(tmp_path_factory.mktemp("unrecorded") / "g")


def flip(path: Path, at: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 4
    path.write_bytes(data)


def test_the_error_names_table_file_branches_commits_and_ways_out(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    file = harm.data_file(root)
    flip(file)

    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).query(ALL)

    error, told = caught.value, str(caught.value)
    assert error.kind is Kind.CORRUPT
    assert (error.table_key, error.file) == ("node:P", str(file.relative_to(root)))
    assert error.branches == ["main", "side"]
    assert error.commits >= 2  # that of the compaction, and that of the deletion
    assert error.readable == opened(str(root)).commits()[error.commits].id
    assert opened(str(root)).query(ALL, snapshot=error.readable).row_count == 5
    assert told.index("repair --from") < told.index("--snapshot") < told.index("--force")
    assert "it does not match its checksum" in told
    assert "bug" not in told


def test_tables_that_do_not_need_the_file_are_read_all_the_same(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    flip(harm.data_file(root))

    found = opened(str(root)).query(TITLES)

    assert found.row_count == 1


def test_an_error_with_all_its_facts_pickles(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    harm.data_file(root).unlink()
    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).query(ALL)

    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own

    assert str(again) == str(caught.value)


def test_a_file_of_the_past_is_needed_by_no_branch(whole: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(whole, tmp_path / "g")
    root, first = Path(graph.uri), graph.commits()[-2].id
    pin = graph.snapshot(snapshot=first).pin("node:P")
    flip(root / build_version_key(pin.path, pin.version))

    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).query(ALL, snapshot=first)

    assert caught.value.branches == []
    assert "Only earlier states need it" in str(caught.value)
    assert opened(str(root)).query(ALL).row_count == 4


def test_what_else_is_damaged_does_not_hide_the_error(whole: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(whole, tmp_path / "g")
    root = Path(graph.uri)
    file = harm.data_file(root)
    graph.query(TITLES)
    flip(file)
    harm.lose_branch_manifest(root)

    with pytest.raises(og.PinUnreadableError) as caught:
        graph.query(ALL)

    assert str(file.relative_to(root)) in str(caught.value)


def test_without_checksums_a_file_that_lance_does_not_name_is_found(unrecorded: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(unrecorded, tmp_path / "g").uri)
    file = harm.data_file(root)
    harm.zeroed(harm.data_file)(root)

    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).query(ALL)

    assert str(file.relative_to(root)) in str(caught.value)
    assert caught.value.table_key == "node:P"


def test_a_damaged_manifest_is_named_with_its_owner(whole: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    file = harm.manifest_head(root)
    flip(file)
    for one in (root / "__manifest" / "_versions").glob("*.manifest"):
        if one != harm.newest_manifest(root):
            one.unlink()

    with pytest.raises(og.OmnigraphError) as caught:
        opened(str(root))

    told = str(caught.value)
    assert caught.value.kind is Kind.CORRUPT
    assert str(file.relative_to(root)) in told
    assert "the manifest of main" in told
    assert "repair --from" in told


# --- the last net ------------------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


def test_an_unexpected_error_is_blamed_on_a_damaged_file(
    unrecorded: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = harm.copied(unrecorded, tmp_path / "g")
    graph.query(ALL)
    flip(harm.data_file(Path(graph.uri)), 0.99)
    monkeypatch.setattr("omnigraph.graph.graph.query", failing(KeyError("spot")))

    with pytest.raises(og.PinUnreadableError) as caught:
        graph.query(ALL)

    assert isinstance(caught.value.__cause__, KeyError)


def test_an_unexpected_error_of_a_sound_graph_stays_what_it_is(
    whole: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = harm.copied(whole, tmp_path / "g")
    graph.query(ALL)
    monkeypatch.setattr("omnigraph.graph.graph.query", failing(KeyError("spot")))

    with pytest.raises(KeyError, match="spot"):
        graph.query(ALL)


def test_an_interrupt_is_not_looked_into(whole: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = harm.copied(whole, tmp_path / "g")
    graph.query(ALL)
    flip(harm.data_file(Path(graph.uri)))
    monkeypatch.setattr("omnigraph.graph.graph.query", failing(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        graph.query(ALL)


def test_every_verb_has_the_net() -> None:
    bare = [
        name
        for name in dir(Graph)
        if not name.startswith("_")
        and callable(getattr(Graph, name))
        and name not in {"create", "open"}
        and not hasattr(getattr(Graph, name), "__wrapped__")
    ]

    assert bare == []


def test_the_command_line_ends_with_6(whole: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(harm.copied(whole, tmp_path / "g").uri)
    flip(harm.data_file(root))

    code = main(["query", str(root), "-e", ALL])

    assert code == 6
    assert "node:P" in capsys.readouterr().err


def test_what_was_recorded_of_a_past_version_is_verified(whole: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(whole, tmp_path / "g")
    root, first = Path(graph.uri), graph.commits()[-2].id
    pin = graph.snapshot(snapshot=first).pin("node:P")
    file = root / build_version_key(pin.path, pin.version)
    file.write_bytes(file.read_bytes().replace(b"spot", b"spou"))

    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        og.open_graph(str(root), runtime=runtime()).query(ALL, snapshot=first)


# --- as earlier releases wrote them: nothing is verified before Lance decodes it ---------------------------


def change(find: Callable[[Path], Path], old: bytes, new: bytes) -> harm.Damage:
    """Change some bytes of a file."""

    def damage(root: Path) -> None:
        path = find(root)
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    return damage


UNRECORDED: dict[str, harm.Damage] = {
    "a type that Lance panics over": change(harm.version_of, b"string", b"strifg"),
    "columns whose encoding is unknown": change(harm.data_file, b"/lance.encodings.ColumnEncoding", b"x" * 31),
    "pages whose layout is unknown": change(harm.data_file, b"/lance.encodings21.PageLayout", b"x" * 29),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_without_checksums_what_lance_can_not_decode_is_damage(name: str, unrecorded: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(unrecorded, tmp_path / "g")
    root, first = Path(graph.uri), graph.commits()[-2].id
    UNRECORDED[name](root)

    with pytest.raises(og.PinUnreadableError) as caught:
        opened(str(root)).query(ALL)
    with pytest.raises(og.PinUnreadableError):  # which is read when it is looked at, after the call
        opened(str(root)).diff(first, "main").to_json()

    assert caught.value.table_key == "node:P"


def test_a_manifest_with_a_type_that_lance_panics_over_is_damage(unrecorded: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(unrecorded, tmp_path / "g").uri)
    change(harm.newest_manifest, b"string", b"strifg")(root)

    with pytest.raises(og.OmnigraphError) as caught:
        opened(str(root))

    assert caught.value.kind is Kind.CORRUPT


def test_without_checksums_a_load_over_a_damaged_index_is_no_bug(unrecorded: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(unrecorded, tmp_path / "g")
    root = Path(graph.uri)
    files = [one for one in harm.index_files(root) if b"/lance.encodings.ColumnEncoding" in one.read_bytes()]
    for one in files:
        one.write_bytes(one.read_bytes().replace(b"/lance.encodings.ColumnEncoding", b"x" * 31))

    with pytest.raises(og.OmnigraphError) as caught:
        opened(str(root)).load(harm.people("a", "y"), mode="merge")

    assert files
    assert caught.value.kind is Kind.CORRUPT


def test_a_manifest_of_another_branch_is_not_read_in_place_of_ones_own(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime())
    graph.branches.create("side")
    graph.load(harm.people("a"), mode="append", branch="side")
    (side,) = (tmp_path / "g" / "__branches").iterdir()
    shutil.rmtree(side)
    shutil.copytree(tmp_path / "g" / "__manifest", side)

    again = og.open_graph(str(tmp_path / "g"), runtime=runtime())

    with pytest.raises(ManifestCorruptError, match="it belongs to `main`"):
        again.query("query q() { match { $p: P } return { count($p) as n } }", branch="side")
    with pytest.raises(ManifestCorruptError, match="it belongs to `main`"):
        again.load(harm.people("b"), mode="append", branch="side")
    assert again.query("query q() { match { $p: P } return { count($p) as n } }").rows() == [{"n": 0}]


def test_a_version_that_no_commit_has_is_not_to_blame(tmp_path: Path) -> None:
    """A compaction previews its result; a version that is gone on purpose must not hide a mistake of ours."""
    graph = og.create_graph(str(tmp_path / "g"), "node P { name: String @key }", runtime=runtime(eager()))
    for name in "abc":
        run(graph, f'insert P {{ name: "{name}" }}')
    graph.optimize()
    gone = [
        version
        for path, version in graph._session.handles.list_open()
        if not Path(graph.uri, build_version_key(path, version)).exists()
    ]

    blame_damage(graph._session, RuntimeError("a mistake"))

    assert gone
