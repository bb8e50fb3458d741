"""A history is proved by its digests: equal in every copy, another after any change, and altered rows are named."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import damaging as harm
import omnigraph as og
from altering import Metadata, alter_commit, alter_commits, alter_schemas, read_commits, rewrite_rows, strip_digests
from branching import branch as make_branch
from cloning import branched, cloned, on
from omnigraph.commit.commit_plan import AdoptedTable, CommitPlan
from omnigraph.commit.manifest_types import RECORD, Commit, PinChange
from omnigraph.commit.publisher import publish
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.verify import VerifyCall, verify
from omnigraph.options import Options
from omnigraph.storage.layout import MANIFEST
from ops.test_recoveries import die, settle
from raised_codes import has_code
from repairing import compacted_graph, mended
from worlds import FAST, runtime, seeded_world

HOUSE = "nodes/0123456789abcdef"
COMMIT_FIELDS: dict[str, Callable[[Any], object]] = {
    "merged_parent": lambda _: "01JC0000000000000000000009",
    "merged_from": lambda _: {"branch": "side", "path": "__branches/01JC0000000000000000000008", "seq": 1},
    "seq": lambda old: old + 1,
    "manifest_version": lambda old: old + 1,
    "changes": lambda old: old[1:],
    "affected_nodes": lambda _: 7,
    "affected_edges": lambda _: 7,
    "summary": lambda _: {"P": {"read": 7}},
    "purged": lambda _: [{"table_key": "node:P", "path": HOUSE}],
}
"""How a field of a commit is altered; any other becomes another text."""
CHANGE_FIELDS: dict[str, Callable[[Any], object]] = {
    "lists_before": lambda _: ["0" * 32],
    "path": lambda _: HOUSE,
    "before": lambda _: "9223372036854775999",
    "after": lambda _: "9223372036854775999",
    "rows_before": lambda old: old + 1,
    "rows_after": lambda old: old + 1,
    "replaced": lambda _: {"table_key": "node:P", "path": HOUSE, "identity": 7},
}
"""How a field of a change is altered, likewise."""
LINKS = {"id", "parent", "seq"}
"""Without these a journal is no line of commits any more, which is said instead."""


def text(_: object) -> str:
    return "x" * 43


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return harm.made(tmp_path_factory.mktemp("sound") / "g")


@pytest.fixture
def copy(sound: og.Graph, tmp_path: Path) -> Path:
    shutil.copytree(sound.uri, tmp_path / "copy")
    return tmp_path / "copy"


def opened(root: Path | str) -> og.Graph:
    return og.open_graph(str(root), runtime=runtime())


def head_digest(graph: og.Graph, branch: str = "main") -> str | None:
    return graph.snapshot(branch=branch).commit.digest


def verify_error(root: Path, branch: str = "main") -> OmnigraphError:
    with pytest.raises(OmnigraphError) as caught:
        og.verify_graph(root, branch=branch, runtime=runtime())
    assert caught.value.kind is Kind.CORRUPT
    return caught.value


def find_errors(root: Path) -> list[tuple[str, str]]:
    found = og.check_graph(str(root), runtime=runtime(), quick=True).findings
    return [(one.code, one.message) for one in found if one.severity is FindingSeverity.ERROR]


# --- what is proved ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_branch_is_proved_back_to_the_first_commit(sound: og.Graph, branch: str) -> None:
    commits = sound.commits(branch=branch)

    proved = sound.verify(branch=branch)

    assert (proved.commit_id, proved.digest) == (commits[0].id, commits[0].digest)
    assert (proved.commits, proved.first_commit_id, proved.is_from_start) == (len(commits), commits[-1].id, True)
    assert (proved.unproven, proved.versions, proved.found_commit_id) == ((), 4, None)


def test_every_commit_has_another_digest(sound: og.Graph) -> None:
    digests = [one.digest for one in sound.commits(branch="side")]

    assert None not in digests
    assert len(set(digests)) == len(digests)


def test_a_digest_of_the_head_proves_that_nothing_changed(sound: og.Graph) -> None:
    digest = head_digest(sound)

    proved = sound.verify(digest=digest)

    assert (proved.found_commit_id, proved.commits_since) == (proved.commit_id, 0)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_digest_of_the_past_says_which_commit_and_how_many_came_since(sound: og.Graph, branch: str) -> None:
    commits = sound.commits(branch=branch)

    for since, commit in enumerate(commits):
        proved = sound.verify(branch=branch, digest=commit.digest)

        assert (proved.found_commit_id, proved.commits_since) == (commit.id, since)


def test_a_digest_of_another_branch_is_unknown(sound: og.Graph) -> None:
    digest = head_digest(sound, "side")

    with pytest.raises(og.VerificationError, check=has_code("digest_unknown")) as caught:
        sound.verify(digest=digest)

    assert (caught.value.digest, caught.value.kind) == (digest, Kind.CORRUPT)
    assert f"does not contain the digest {digest}" in str(caught.value)


@pytest.mark.parametrize("given", ["", "short", "x" * 44, "ä" * 43])
def test_what_is_no_digest_is_refused_as_a_mistake(sound: og.Graph, given: str) -> None:
    with pytest.raises(og.BadArgumentError):
        sound.verify(digest=given)


def test_a_branch_that_is_not_there_is_said_so(sound: og.Graph) -> None:
    with pytest.raises(og.BranchMissingError):
        sound.verify(branch="nope")


# --- copies --------------------------------------------------------------------------------------------------


def test_clones_and_moved_graphs_have_the_same_digests(tmp_path: Path) -> None:
    graph = branched(tmp_path / "g")
    branches = ("main", "review", "idea")
    digests = {name: head_digest(graph, name) for name in branches}
    cloned(graph, tmp_path / "clone")
    shutil.copytree(graph.uri, tmp_path / "moved")

    for place in ("clone", "moved"):
        there = opened(tmp_path / place)
        assert {name: there.verify(branch=name, digest=digests[name]).digest for name in branches} == digests


def test_registers_of_branches_and_tags_are_no_part_of_it(tmp_path: Path) -> None:
    graph = branched(tmp_path / "g")
    digest = head_digest(graph)
    version = graph.snapshot().manifest_version

    graph.branches.create("more")
    graph.tags.create("v1")
    graph.branches.delete("idea")

    assert graph.snapshot().manifest_version > version
    assert graph.verify(digest=digest).digest == digest


def test_any_commit_gives_another_digest(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), harm.SCHEMA, runtime=runtime())
    digests = [head_digest(graph)]

    graph.load(harm.people("a", "b"), mode="append", message="hello")
    digests.append(head_digest(graph))
    graph.apply_schema(harm.SCHEMA.replace("title: String @key", "title: String @key  size: I64?"))
    digests.append(head_digest(graph))
    graph.mutate('query q() { delete P where name = "a" }', actor="me")
    digests.append(head_digest(graph))

    assert len(set(digests)) == 4
    assert graph.verify().commits == 4


# --- merges, recoveries, repairs -----------------------------------------------------------------------------


def test_a_merge_covers_the_digest_of_what_it_merged(tmp_path: Path) -> None:
    graph = branched(tmp_path / "g")
    graph.merge("review", into="main")
    merged = head_digest(graph, "review")
    head = graph.commits()[0]

    proved = graph.verify()

    assert head.merged_from is not None
    assert (head.merged_parent, head.merged_from.digest) == (graph.commits(branch="review")[0].id, merged)
    assert (proved.merges, proved.merges_gone) == (1, 0)
    assert graph.verify(branch="review").merges == 1


def test_a_merge_is_proved_also_when_the_branch_is_gone(tmp_path: Path) -> None:
    graph = branched(tmp_path / "g")
    (path,) = {one.path for one in graph._session.branches.list_records() if one.name == "review"}
    graph.merge("review", into="main")
    graph.branches.delete("idea")
    graph.branches.delete("review")
    shutil.rmtree(Path(graph.uri) / path)

    proved = opened(graph.uri).verify()

    assert (proved.merges, proved.merges_gone) == (0, 1)


def test_a_merged_commit_that_was_altered_in_its_own_branch_is_found(tmp_path: Path) -> None:
    graph = branched(tmp_path / "g")
    (path,) = {one.path for one in graph._session.branches.list_records() if one.name == "review"}
    merged = graph.commits(branch="review")[0]
    graph.merge("review", into="main")
    merge = graph.commits()[0]

    alter_commit(Path(graph.uri), merged.id, path, digest=text(None))

    error = verify_error(Path(graph.uri))
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert error.commit_id == merge.id


@pytest.mark.usefixtures("with_sidecars")
def test_commits_of_recovery_belong_to_the_chain(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    side = make_branch(session, "side")
    die(session, "publish.flushed", "ada")
    settle(session)
    die(side, "publish.flushed", "bob")
    settle(session)

    for name in ("main", "side"):
        graph = opened(tmp_path / "g")
        assert graph.commits(branch=name)[0].operation == "recovery"
        assert graph.verify(branch=name).commits == 3
    assert find_errors(tmp_path / "g") == []


def test_a_repair_of_a_table_belongs_to_the_chain(tmp_path: Path) -> None:
    graph = compacted_graph(tmp_path / "g")
    digest = head_digest(graph)
    harm.version_of(tmp_path / "g").unlink()

    assert isinstance(verify_error(tmp_path / "g"), og.VerificationError)
    mended(tmp_path / "g", confirm=True)

    proved = opened(tmp_path / "g").verify(digest=digest)
    assert (proved.commits_since, find_errors(tmp_path / "g")) == (1, [])


def test_a_digest_that_a_repair_went_back_from_is_unknown(copy: Path) -> None:
    graph = opened(copy)
    before = head_digest(graph)
    graph.load(harm.people("z"), mode="append")
    lost = head_digest(graph)
    harm.manifest_head(copy).write_bytes(b"")

    mended(copy, confirm=True, force=True)

    assert opened(copy).verify(digest=before).commits_since is not None
    with pytest.raises(og.VerificationError, check=has_code("digest_unknown")):
        opened(copy).verify(digest=lost)


def test_sealed_commits_are_proved_too(tmp_path: Path) -> None:
    few = replace(FAST, head_commits=3, sealed_fragments=3)
    graph = grow(tmp_path / "g", few, 20)

    assert graph.verify().commits == 21
    assert graph.verify(digest=graph.commits()[-1].digest).commits_since == 20
    assert find_errors(tmp_path / "g") == []


def grow(root: Path, options: Options, commits: int) -> og.Graph:
    graph = og.create_graph(str(root), "node P { k: String @key }\nnode Q { k: String @key }", runtime=runtime(options))
    for number in range(commits):
        graph.mutate(f'query q() {{ insert P {{ k: "{number}" }} }}')
    return graph


def test_of_a_history_that_lost_its_beginning_the_rest_is_proved(tmp_path: Path) -> None:
    graph = grow(tmp_path / "g", replace(FAST, head_commits=4, sealed_fragments=99), 14)
    parts = graph._session.log.head().table.list_files()
    (tmp_path / "g" / parts[0][0]).unlink()
    mended(tmp_path / "g", confirm=True, force=True)

    proved = opened(tmp_path / "g").verify()

    assert proved.is_from_start is False
    assert 5 < proved.commits < 15
    assert proved.unproven == ("node:Q",)


# --- what was altered ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("field", Commit.__struct_fields__)
def test_each_altered_field_of_a_commit_is_found(copy: Path, field: str, place: int) -> None:
    row = read_commits(copy)[-1 - place]
    altered = COMMIT_FIELDS.get(field, text)(row.get(field))
    alter_commits(copy, lambda one: {**one, field: altered} if one["id"] == row["id"] else one)

    codes = {code for code, _ in find_errors(copy)}
    error = verify_error(copy)

    if field in LINKS:
        assert codes & {"manifest_damaged", "journal_damaged", "commit_altered"}
    else:
        assert "commit_altered" in codes
        assert isinstance(error, og.VerificationError)
        assert error.code == "commit_altered"
        assert error.commit_id == row["id"]


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("field", PinChange.__struct_fields__)
def test_each_altered_field_of_a_change_is_found(copy: Path, field: str, place: int) -> None:
    row = read_commits(copy)[-1 - place]
    first, *others = row["changes"]
    changed = {**first, field: CHANGE_FIELDS.get(field, text)(first.get(field))}
    alter_commit(copy, row["id"], changes=[changed, *others])

    messages = [message for code, message in find_errors(copy) if code == "commit_altered"]
    error = verify_error(copy)

    assert any(row["id"] in message for message in messages)
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert error.commit_id == row["id"]


def test_an_altered_commit_of_a_branch_is_found(copy: Path) -> None:
    (path,) = ("__branches/" + one.name for one in (copy / "__branches").iterdir())
    row = read_commits(copy, path)[-1]
    alter_commit(copy, row["id"], path, actor="other")

    assert [code for code, _ in find_errors(copy)] == ["commit_altered"]
    assert isinstance(verify_error(copy, "side"), og.VerificationError)
    assert opened(copy).verify().branch == "main"


def test_an_altered_copy_of_the_commit_that_a_branch_was_taken_from_is_found(copy: Path) -> None:
    (path,) = ("__branches/" + one.name for one in (copy / "__branches").iterdir())
    row = read_commits(copy, path)[0]
    alter_commit(copy, row["id"], path, actor="other")

    ((code, message),) = find_errors(copy)
    error = verify_error(copy, "side")

    assert code == "commit_altered"
    assert "the copy of the branch differs" in message
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert error.commit_id == row["id"]


@pytest.mark.parametrize("where", ["main", "side"])
@pytest.mark.parametrize("field", ["source", "same"])
def test_an_altered_schema_is_found(copy: Path, where: str, field: str) -> None:
    (side,) = ("__branches/" + one.name for one in (copy / "__branches").iterdir())

    def change(old: Metadata) -> Metadata:
        return {**old, field: {"7": 8} if field == "same" else old["source"] + "\n"}

    alter_schemas(copy, change, MANIFEST if where == "main" else side)

    assert "schema_unreadable" in {code for code, _ in find_errors(copy)}
    assert "schema" in str(verify_error(copy, "side"))


def test_a_schema_of_the_past_is_covered(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key }", runtime=runtime())
    graph.apply_schema("node P { k: String @key  n: I64? }")
    first = graph.commits()[-1]

    alter_schemas(
        tmp_path / "g",
        lambda old: {**old, "source": old["source"].replace("P", "p", 1)} if old["id"] == first.schema_after else old,
    )

    assert [code for code, _ in find_errors(tmp_path / "g")] == ["commit_altered"]
    error = verify_error(tmp_path / "g")
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert error.commit_id == first.id


@pytest.mark.parametrize("column, value", [("row_count", 77), ("table_version", 2**63 + 77)])
def test_a_pin_that_is_not_what_its_commit_says_is_found(copy: Path, column: str, value: int) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        is_it = row["object_type"] == "table_version" and row["table_key"] == "node:P"
        return {**row, column: value} if is_it else row

    rewrite_rows(copy, change)

    error = verify_error(copy)
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert "node:P" in str(error)


@pytest.mark.parametrize("damage", [harm.removed(harm.data_file), harm.truncated(harm.deletion_file)])
def test_a_damaged_file_of_the_head_is_found(copy: Path, damage: harm.Damage) -> None:
    damage(copy)

    error = verify_error(copy)

    assert isinstance(error, og.VerificationError)
    assert error.code == "files_damaged"
    assert error.place.startswith("nodes/")
    assert error.count >= 1


def test_a_damaged_manifest_is_no_proof(copy: Path) -> None:
    harm.manifest_head(copy).write_bytes(b"")

    verify_error(copy)


# --- histories of older releases -------------------------------------------------------------------------------


@pytest.fixture
def older(copy: Path) -> Path:
    strip_digests(copy)
    return copy


def record(session: Session) -> str:
    """Publish a commit that records what a branch shows."""
    head = session.log.head()
    manifest = head.snapshot.manifest
    adopted = {key: AdoptedTable(record=manifest.tables[key], pin=pin) for key, pin in manifest.pins.items()}
    plan = CommitPlan(base=head, operation=RECORD, actor="me", adopted=adopted)
    return publish(session.log, session.handles, plan).commit.id


def test_a_graph_of_an_older_release_is_read_and_written_as_before(older: Path) -> None:
    graph = opened(older)
    rows = graph.query("query q() { match { $p: P } return { count($p) as n } }").rows()

    graph.load(harm.people("z"), mode="append")
    graph.branches.create("new")
    on(graph, "new", 'insert C { title: "t" }')
    graph.merge("new")

    assert rows == [{"n": 4}]
    assert {one.digest for name in ("main", "side", "new") for one in graph.commits(branch=name)} == {None}
    assert find_errors(older) == []


def test_what_has_no_digests_says_so_and_how_to_begin(older: Path) -> None:
    with pytest.raises(og.MissingError, match="omnigraph check --record"):
        opened(older).verify()
    with pytest.raises(og.VerificationError, match="has no digests"):
        opened(older).verify(digest="x" * 43)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_chain_begins_with_the_commit_that_records(older: Path, branch: str) -> None:
    session = open_session(str(older), is_read_only=False, runtime=runtime()).checkout(branch)
    recorded = record(session)
    graph = opened(older)
    graph.load(harm.people("z"), mode="append", branch=branch)

    proved = graph.verify(branch=branch)

    assert (proved.commits, proved.first_commit_id, proved.is_from_start, proved.unproven) == (2, recorded, True, ())
    assert find_errors(older) == []


def test_a_schema_that_was_recorded_is_covered(older: Path) -> None:
    recorded = record(open_session(str(older), is_read_only=False, runtime=runtime()))

    alter_schemas(older, lambda old: {**old, "source": old["source"] + "\n"})

    error = verify_error(older)
    assert isinstance(error, og.VerificationError)
    assert error.code == "commit_altered"
    assert error.commit_id == recorded


# --- what it costs -------------------------------------------------------------------------------------------


def test_the_row_of_a_commit_grows_by_at_most_128_bytes(sound: og.Graph) -> None:
    commit = next(one for one in sound.commits() if len(one.changes) == 1 and one.changes[0].sum_before)
    plain = [msgspec.structs.replace(change, sum_before=None, sum_after=None) for change in commit.changes]
    without = msgspec.structs.replace(commit, digest=None, changes=tuple(plain))

    assert 0 < len(msgspec.json.encode(commit)) - len(msgspec.json.encode(without)) <= 128


def test_it_waits_for_nothing_and_writes_nothing(sound: og.Graph) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path(sound.uri).rglob("*") if path.is_file()}
    session = open_session(sound.uri, is_read_only=True, runtime=runtime())

    told = verify(session, VerifyCall(branch="side", progress=lambda _: None))

    assert json.dumps(told.to_json())
    assert {path: path.stat().st_mtime_ns for path in Path(sound.uri).rglob("*") if path.is_file()} == before
