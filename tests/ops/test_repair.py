"""`repair` goes back to what can be read: what loses nothing when it is confirmed, the rest only when it is forced."""

import random
from dataclasses import replace
from pathlib import Path
from string import ascii_letters

import lance
import pytest
from msgspec import structs

import damaging as harm
import omnigraph as og
from earlier_release import without_checksums
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.cli.main import main
from omnigraph.commit.manifest_types import SchemaRecord
from omnigraph.errors import Kind
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.repair_plan import Certainty, Remedy
from omnigraph.ops.repair_result import RepairOutcome
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.table_cache import translate_read_errors
from repairing import SCHEMA, codes_of, compacted_graph, mended, person
from upkeep_calls import exported, opened, optimized
from worlds import FAST, runtime


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph with two branches."""
    return harm.made(tmp_path_factory.mktemp("forked") / "g")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return compacted_graph(tmp_path_factory.mktemp("sound") / "g")


def files_of(root: Path) -> dict[str, bytes]:
    """Every file of a table, but the hints that Lance writes anew."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for room in ("nodes", "edges")
        for path in (root / room).rglob("*")
        if path.is_file() and path.suffix != ".json"
    }


def test_a_sound_graph_needs_no_repair(sound: og.Graph) -> None:
    found = sound.repair()

    assert (found.tables, found.manifests, dict(found.moved_heads)) == ((), (), {})
    assert sound.repair(confirm=True, force=True, deep=True).to_json()["tables"] == []


def test_a_deep_repair_reads_values_of_every_type(tmp_path: Path) -> None:
    kinds = "b: Bool?  i: I32?  u: U64?  f: F64?  d: Date?  t: DateTime?  v: Vector(2)?  l: [String]?  x: Blob?"
    graph = og.create_graph(str(tmp_path / "g"), f"node P {{ name: String @key  {kinds} }}", runtime=runtime())
    values = {"b": True, "i": 1, "u": 2, "f": 0.5, "d": "2026-01-02", "t": "2026-01-02T03:04:05Z", "v": [1.0, 2.0]}
    full: harm.Record = {"type": "P", "data": {"name": "full", **values, "l": ["one"], "x": "base64:aGk="}}
    graph.load([person("bare"), full], mode="append")

    found = graph.repair(deep=True)

    assert found.tables == ()


def scar_below_deleted_rows(graph: og.Graph) -> Path:
    """Damage values that main has deleted and another branch has not."""
    graph.branches.create("side")
    graph.mutate('query q() { delete P where name != "p0" }')
    root = Path(graph.uri)
    harm.scarred(harm.data_file)(root)
    return root


def test_without_checksums_what_is_damaged_among_deleted_rows_counts_where_they_live(tmp_path: Path) -> None:
    with without_checksums():
        root = scar_below_deleted_rows(wordy_graph(tmp_path / "g"))

    found = mended(root, deep=True).tables

    assert [one.branch for one in found] == ["side"]


def test_a_file_that_does_not_match_its_checksum_counts_wherever_it_is_named(wordy: og.Graph, tmp_path: Path) -> None:
    root = scar_below_deleted_rows(harm.copied(wordy, tmp_path / "g"))

    found = mended(root, deep=True).tables

    assert [one.branch for one in found] == ["main", "side"]


PINS: dict[str, harm.Damage] = {
    "version removed": harm.removed(harm.version_of),
    "version truncated": harm.truncated(harm.version_of),
    "version zeroed": harm.zeroed(harm.version_of),
    "data removed": harm.removed(harm.data_file),
    "data truncated": harm.truncated(harm.data_file),
    "data emptied": harm.emptied(harm.data_file),
    "data zeroed": harm.zeroed(harm.data_file),
}


@pytest.mark.parametrize("name", PINS)
def test_what_only_maintenance_made_goes_back_without_a_loss(name: str, sound: og.Graph, tmp_path: Path) -> None:
    before = exported(sound)
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    PINS[name](root)
    files = files_of(root)

    codes = [main(["repair", str(root)]), main(["repair", str(root), "--confirm"]), main(["check", str(root)])]

    assert codes == [0, 0, 0]
    assert exported(opened(str(root))) == before
    assert opened(str(root)).commits(limit=1)[0].operation == "repair"
    assert files_of(root).items() >= files.items()


def test_a_preview_tells_everything_and_does_nothing(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.removed(harm.version_of)(root)
    files = files_of(root)

    (found,) = mended(root).tables

    assert (found.plan.certainty, found.plan.remedy) == (Certainty.VERIFIED, Remedy.EARLIER_VERSION)
    assert (found.outcome, found.commit_id, found.branch) == (RepairOutcome.PLANNED, None, "main")
    assert [step.operation for step in found.plan.lost] == ["optimize"]
    assert files_of(root) == files


def one_more(root: Path) -> None:
    """A commit behind the compaction, whose version is lost."""
    opened(str(root)).load([person("late")], mode="append")
    harm.removed(harm.version_of)(root)


def test_what_loses_rows_is_refused_unless_it_is_forced(sound: og.Graph, tmp_path: Path) -> None:
    before = exported(sound)
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    one_more(root)

    refused = mended(root, confirm=True)
    forced = mended(root, confirm=True, force=True)

    (table,) = refused.tables
    assert (table.plan.certainty, table.outcome, refused.has_refused) == (
        Certainty.SUSPICIOUS,
        RepairOutcome.REFUSED,
        True,
    )
    told = table.to_json()
    assert (told["classification"], told["action"]) == (told["certainty"], told["outcome"]) == ("suspicious", "refused")
    assert [(step.operation, step.rows_before, step.rows_after) for step in table.plan.lost] == [("load", 3, 4)]
    assert [one.outcome for one in forced.tables] == [RepairOutcome.PUBLISHED]
    assert not forced.has_refused
    assert exported(opened(str(root))) == before
    assert not og.check_graph(str(root), runtime=runtime()).has_errors


def test_exit_codes_say_whether_something_was_refused(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    one_more(root)

    codes = [main(["repair", str(root), *how]) for how in ([], ["--confirm"], ["--confirm", "--force"], ["--confirm"])]

    assert codes == [0, 1, 0, 0]


def test_edges_that_lose_their_nodes_are_told_and_stay(sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    graph.load([person("late"), harm.knows("late", "a")], mode="append")
    harm.removed(harm.version_of)(Path(graph.uri))

    (table,) = mended(Path(graph.uri), confirm=True, force=True).tables

    assert len(table.dangling) == 1
    assert "Knows.from: no P 'late'" in table.dangling[0]
    assert codes_of(Path(graph.uri)) == ["end_missing", "past_damaged"]


def test_a_table_of_which_nothing_is_left_becomes_an_empty_one(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.lose_table(root)

    (refused,) = mended(root, confirm=True).tables
    (forced,) = mended(root, confirm=True, force=True).tables
    opened(str(root)).load([person(one) for one in ("a", "b", "c")], mode="append")

    assert (refused.plan.certainty, refused.plan.remedy) == (Certainty.UNVERIFIABLE, Remedy.EMPTY_TABLE)
    assert (refused.outcome, forced.outcome) == (RepairOutcome.REFUSED, RepairOutcome.PUBLISHED)
    assert forced.dangling == ("every edge of Knows (3) without a node",)
    assert not og.check_graph(str(root), runtime=runtime()).has_errors


def test_a_version_with_the_columns_of_an_older_schema_does_not_count(sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    graph.apply_schema(SCHEMA.replace("age: I64? @index", "age: I64? @index  nick: String?"))
    harm.removed(harm.version_of)(Path(graph.uri))

    (table,) = mended(Path(graph.uri)).tables

    assert table.plan.certainty is Certainty.UNVERIFIABLE
    assert "columns of the schema" in table.plan.reasons[-1]


INDEXES = {"removed": harm.lose_index, "partly removed": harm.lose_part_of_index, "zeroed": harm.zero_index}


@pytest.mark.parametrize("name", INDEXES)
def test_a_lost_index_costs_no_row(name: str, sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    graph.load([person("late")], mode="append")
    before = exported(graph)
    INDEXES[name](Path(graph.uri))

    (table,) = mended(Path(graph.uri), confirm=True).tables
    optimized(opened(graph.uri))

    assert (table.plan.certainty, table.plan.remedy) == (Certainty.VERIFIED, Remedy.WITHOUT_INDEXES)
    assert table.plan.dropped_indexes == ("id_btree",)
    assert exported(opened(graph.uri)) == before
    assert codes_of(Path(graph.uri)) == []


def test_a_wrong_count_of_rows_is_corrected(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.miscount(root)

    (table,) = mended(root, confirm=True).tables

    assert (table.plan.certainty, table.plan.remedy) == (Certainty.VERIFIED, Remedy.RIGHT_COUNT)
    assert opened(str(root)).snapshot().pin("node:P").rows == 3
    assert codes_of(root) == []


def told(first: int) -> list[harm.Record]:
    """Records of people whose texts are nearly all of their file."""
    chance = random.Random(first)
    words = ["".join(chance.choices(ascii_letters, k=7)) for _ in range(400)]
    return [
        {"type": "P", "data": {"name": f"p{n}", "bio": " ".join(chance.choices(words, k=40))}}
        for n in range(first, first + 200)
    ]


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return wordy_graph(tmp_path_factory.mktemp("wordy") / "g")


def wordy_graph(root: Path) -> og.Graph:
    """Three files of long texts, and the one that they were compacted to."""
    schema = "node P { name: String @key  bio: String? }\n"
    graph = og.create_graph(str(root), schema, runtime=runtime())
    for first in (0, 200, 400):
        graph.load(told(first), mode="append")
    optimized(graph)
    return graph


def compacted_file(root: Path) -> Path:
    """A file that only states before the compaction have."""
    graph = opened(str(root))
    commit = next(one for one in graph.commits() if one.operation == "load")
    dataset = graph.table("P", snapshot=commit.id)
    return harm.table_path(root, "node:P") / "data" / dataset.get_fragments()[1].metadata.files[0].path


def test_what_repair_goes_back_to_was_read_whole(wordy: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    harm.scarred(compacted_file)(root)
    harm.removed(harm.version_of)(root)

    refused = mended(root, confirm=True)
    forced = mended(root, confirm=True, force=True)

    (plan,) = [one.plan for one in refused.tables]
    assert (plan.certainty, refused.has_refused) == (Certainty.SUSPICIOUS, True)
    assert [step.operation for step in plan.lost] == ["optimize", "load", "load"]
    assert [one.plan.target.rows for one in forced.tables if one.plan.target is not None] == [200]
    assert harm.codes(str(root), FindingSeverity.ERROR, deep=True) == []


def test_damage_in_the_midst_of_a_file_is_found_by_a_deep_repair(wordy: og.Graph, tmp_path: Path) -> None:
    before = exported(wordy)
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    file = harm.data_file(root)
    harm.scarred(harm.data_file)(root)

    found = mended(root, deep=True)
    codes = [main(["repair", str(root), "--deep", "--confirm"]), main(["check", str(root), "--deep"])]

    (plan,) = [one.plan for one in found.tables]
    assert (plan.certainty, plan.remedy) == (Certainty.VERIFIED, Remedy.EARLIER_VERSION)
    assert file.name in plan.reasons[0]
    assert codes == [0, 0]
    assert exported(opened(str(root))) == before


def test_a_table_that_has_lost_an_index_too_is_read_whole(wordy: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    harm.scarred(harm.data_file)(root)
    harm.lose_index(root)

    (found,) = mended(root).tables

    assert found.plan.remedy is Remedy.EARLIER_VERSION


def test_the_way_out_of_unreadable_rows_finds_them(wordy: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    harm.scarred(harm.data_file)(root)

    (found,) = og.check_graph(str(root), deep=True, runtime=runtime()).findings

    assert found.code == "file_damaged"
    assert "omnigraph repair --deep" in found.way_out


READS = (
    "query q() { match { $p: P } return { $p.bio } }",
    'query q() { match { $p: P  $p.name = "p7" } return { $p.bio } }',
    'query q() { match { $p: P  $p.bio contains "zz" } return { count($p) } }',
)


@pytest.mark.parametrize("query", READS)
def test_a_query_on_a_file_that_can_not_be_decoded_says_so(query: str, wordy: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    harm.scarred(harm.data_file)(root)

    with pytest.raises(og.PinUnreadableError, match="omnigraph repair --deep"):
        opened(str(root)).query(query).rows()


def test_an_export_of_a_file_that_can_not_be_decoded_does_not_blame_its_target(
    wordy: og.Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(harm.copied(wordy, tmp_path / "g").uri)
    harm.scarred(harm.data_file)(root)

    code = main(["export", str(root), "--output", str(tmp_path / "out.jsonl")])

    assert code == EXIT_CODES[Kind.CORRUPT]
    said = capsys.readouterr().err
    assert harm.table_path(root, "node:P").name in said
    assert "out.jsonl" not in said


def test_what_was_asked_wrongly_is_not_taken_for_damage(wordy: og.Graph) -> None:
    dataset = wordy.table("P")

    with pytest.raises(ValueError, match="no_such"), translate_read_errors("nodes/p", 1):
        dataset.to_table(columns=["no_such"])
    with pytest.raises(ValueError, match="no_such"), translate_read_errors("nodes/p", 1):
        dataset.to_table(filter="no_such > 1")


def test_a_moved_head_is_told_and_left_alone(forked: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(forked, tmp_path / "g")
    harm.foreign_append(tmp_path / "g")

    found = graph.repair(confirm=True)

    assert (found.tables, dict(found.moved_heads)) == ((), {"node:C": 2})


def test_every_branch_is_repaired_or_only_the_one_that_is_named(forked: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(forked, tmp_path / "g")
    harm.lose_index(tmp_path / "g")

    one = graph.repair(confirm=True, branch="side")
    rest = graph.repair(confirm=True)

    assert [table.branch for table in one.tables] == ["side"]
    assert [table.branch for table in rest.tables] == ["main"]
    assert codes_of(tmp_path / "g") == []


def test_a_graph_that_is_open_for_reading_is_only_looked_at(sound: og.Graph, tmp_path: Path) -> None:
    root = Path(harm.copied(sound, tmp_path / "g").uri)
    harm.removed(harm.version_of)(root)
    reader = og.open_graph(str(root), read_only=True, runtime=runtime())

    assert len(reader.repair().tables) == 1
    with pytest.raises(og.ReadOnlyError):
        reader.repair(confirm=True)


# --- manifests -------------------------------------------------------------------------------------------

MANIFESTS: dict[str, harm.Damage] = {
    "version truncated": harm.truncated(harm.newest_manifest),
    "version zeroed": harm.zeroed(harm.newest_manifest),
    "head removed": harm.removed(harm.manifest_head),
    "head emptied": harm.emptied(harm.manifest_head),
    "head zeroed": harm.zeroed(harm.manifest_head),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_damaged_manifest_goes_back_only_by_force(name: str, sound: og.Graph, tmp_path: Path) -> None:
    before = exported(sound)
    graph = harm.copied(sound, tmp_path / "g")
    graph.load([person("late")], mode="append")
    MANIFESTS[name](tmp_path / "g")
    root = str(tmp_path / "g")

    codes = [main(["repair", root, *how]) for how in ([], ["--confirm"], ["--confirm", "--force"])]

    assert codes == [0, 1, 0]
    assert exported(opened(root)) == before
    assert sorted(codes_of(tmp_path / "g")) == ["unused_files", "version_aside"]


def test_a_handle_that_knows_the_lost_state_notices(sound: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(sound, tmp_path / "g")
    graph.load([person("late")], mode="append")
    lost = graph.snapshot().commit.id
    harm.truncated(harm.newest_manifest)(tmp_path / "g")

    (done,) = mended(tmp_path / "g", confirm=True, force=True).manifests
    now = graph.snapshot()

    assert now.commit.id == done.commit_id != lost
    assert now.manifest_version == done.from_version + 1
    graph.load([person("later")], mode="append")
    assert lost not in [commit.id for commit in opened(graph.uri).commits()]


def test_the_manifest_of_a_branch_goes_back_too(forked: og.Graph, tmp_path: Path) -> None:
    graph = harm.copied(forked, tmp_path / "g")
    harm.truncated(harm.side_manifest)(tmp_path / "g")

    (done,) = graph.repair(confirm=True, force=True).manifests

    assert (done.branch, done.outcome) == ("side", RepairOutcome.PUBLISHED)
    assert exported(graph, branch="side") == exported(graph)


HOPELESS: dict[str, harm.Damage] = {
    "manifest removed": harm.lose_manifest,
    "contradiction in the only version": harm.lose_pin,
    "another stamp": harm.restamp,
    "branch's manifest removed": harm.lose_branch_manifest,
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_nothing_can_be_done_about_is_refused_with_a_reason(name: str, forked: og.Graph, tmp_path: Path) -> None:
    harm.copied(forked, tmp_path / "g")
    HOPELESS[name](tmp_path / "g")

    found = mended(tmp_path / "g", confirm=True, force=True)

    assert [one.outcome for one in found.manifests] == [RepairOutcome.REFUSED]
    assert found.manifests[0].reason
    assert found.has_refused


# --- histories -------------------------------------------------------------------------------------------


def test_a_history_begins_later_when_a_part_of_it_is_lost(tmp_path: Path) -> None:
    settings = runtime(replace(FAST, head_commits=3, sealed_fragments=2))
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=settings)
    ids = [graph.load([person(f"p{number}")], mode="append").commit_id for number in range(14)]
    before = exported(graph)
    fragments = lance.dataset(f"{graph.uri}/{MANIFEST}").get_fragments()
    (tmp_path / "g" / MANIFEST / "data" / fragments[0].metadata.files[0].path).unlink()

    codes = [main(["repair", graph.uri, *how]) for how in ([], ["--confirm"], ["--confirm", "--force"], ["--confirm"])]
    opened_again = og.open_graph(graph.uri, runtime=settings)
    listed = [commit.id for commit in opened_again.commits()]
    for number in range(14, 24):
        opened_again.load([person(f"p{number}")], mode="append")

    assert codes == [0, 1, 0, 0]
    assert listed[-1] in ids[1:]
    assert exported(opened_again, snapshot=listed[-1])
    with pytest.raises(og.OmnigraphError):
        opened_again.snapshot(snapshot=ids[0])
    assert exported(opened_again, snapshot=listed[0]) == before
    assert not og.check_graph(graph.uri, runtime=settings).has_errors


def test_a_schema_that_can_not_be_read_goes_back_with_its_manifest(tmp_path: Path) -> None:
    with without_checksums():
        graph = compacted_graph(tmp_path / "g")
        root, head = Path(graph.uri), graph._session.log.head()
        before = exported(graph)
        broken = replace(head.snapshot.manifest, schema=_spoilt(head.snapshot.manifest.schema))
        graph._session.log.publish(head, broken, lambda _: True)

    (planned,) = mended(root).manifests
    (done,) = mended(root, confirm=True, force=True).manifests

    assert "the schema can't be read" in planned.reason
    assert done.outcome is RepairOutcome.PUBLISHED
    assert exported(opened(str(root))) == before


def _spoilt(schema: SchemaRecord) -> SchemaRecord:
    return structs.replace(schema, catalog=schema.catalog.replace('"nodes"', '"nodez"', 1))
