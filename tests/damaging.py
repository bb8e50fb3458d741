"""Graphs to damage, and the ways to do it: by hand, and with plain Lance calls."""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa

import omnigraph as og
from omnigraph.commit.manifest_codec import SCHEMA as MANIFEST_SCHEMA
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.storage.layout import (
    MANIFEST,
    SCHEMA_COPY,
    format_detached_name,
    format_version_name,
    parse_version_number,
)
from upkeep_calls import opened, optimized
from worlds import runtime

SCHEMA = """
node P {
  name: String @key
  age: I64? @index
  mood: enum(good, bad)?
  mail: String?
  spot: Vector(2)?
  @unique(mail)
  @range(age, 0..200)
  @check(mail, "@")
}
node C { title: String @key }
edge Knows: P -> P { since: I64? }
edge Works: P -> C @card(0..1)
"""

Damage = Callable[[Path], object]
Record = dict[str, object]


def made(root: Path) -> og.Graph:
    """A graph whose tables have deletions, indexes, several fragments and a compaction, with a branch of its own."""
    graph = og.create_graph(str(root), SCHEMA, runtime=runtime())
    acme: Record = {"type": "C", "data": {"title": "acme"}}
    works: Record = {"edge": "Works", "from": "a", "to": "acme"}
    graph.load([*people("a", "b", "c"), acme], mode="append")
    graph.load([knows("a", "b"), knows("b", "c"), works], mode="append")
    graph.load(people("d", "e"), mode="append")
    optimized(graph)
    graph.mutate('query q() { delete P where name = "e" }')
    graph.branches.create("side")
    graph.load(people("s"), mode="append", branch="side")
    return graph


def people(*names: str) -> list[Record]:
    """Records of people, all different."""
    return [
        {"type": "P", "data": {"name": one, "age": ord(one[0]), "mood": "good", "mail": f"{one}@x", "spot": [1.0, 2.0]}}
        for one in names
    ]


def knows(one: str, other: str) -> Record:
    """A record of an edge."""
    return {"edge": "Knows", "from": one, "to": other}


def copied(graph: og.Graph, root: Path) -> og.Graph:
    """The same graph elsewhere, to be damaged: nothing in it says where it is."""
    shutil.copytree(graph.uri, root)
    return opened(str(root))


def codes(graph: og.Graph | str, severity: FindingSeverity | None = None, **how: bool) -> list[str]:
    """The codes of what a check finds, in its order."""
    uri = graph if isinstance(graph, str) else graph.uri
    found = og.check_graph(uri, runtime=runtime(), quick=how.get("quick", False), deep=how.get("deep", False))
    return [one.code for one in found.findings if severity in (None, one.severity)]


# --- files of tables ---------------------------------------------------------------------------------------


def table_path(root: Path, key: str, branch: str = "main") -> Path:
    """The directory of a table."""
    return root / og.open_graph(str(root), read_only=True, runtime=runtime()).snapshot(branch=branch).pin(key).path


def pinned(root: Path, key: str, branch: str = "main") -> lance.LanceDataset:
    """A table as its branch shows it."""
    graph = og.open_graph(str(root), read_only=True, runtime=runtime())
    return graph.table(key.partition(":")[2], branch=branch)


def data_file(root: Path, key: str = "node:P") -> Path:
    """The data file of the first fragment that main shows."""
    return table_path(root, key) / "data" / pinned(root, key).get_fragments()[0].metadata.files[0].path


def deletion_file(root: Path) -> Path:
    """The deletion file that main shows of the people."""
    fragments = [one.metadata for one in pinned(root, "node:P").get_fragments()]
    (name,) = [one.deletion_file.path(one.id) for one in fragments if one.deletion_file is not None]
    return table_path(root, "node:P") / name


def version_of(root: Path, key: str = "node:P") -> Path:
    """The file of the version that main shows."""
    return table_path(root, key) / format_detached_name(pinned(root, key).version)


def index_files(root: Path, name: str = "id_btree") -> list[Path]:
    """The files of an index of the people."""
    (segment,) = next(one.segments for one in pinned(root, "node:P").describe_indices() if one.name == name)
    return sorted((table_path(root, "node:P") / "_indices" / str(segment.uuid)).iterdir())


def removed(find: Callable[[Path], Path]) -> Damage:
    """A file is gone."""
    return lambda root: find(root).unlink()


def truncated(find: Callable[[Path], Path]) -> Damage:
    """A file has lost its end."""

    def damage(root: Path) -> None:
        path = find(root)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return damage


def emptied(find: Callable[[Path], Path]) -> Damage:
    """A file has no byte."""
    return lambda root: find(root).write_bytes(b"")


def zeroed(find: Callable[[Path], Path]) -> Damage:
    """A file has its size, and nothing else of what it was."""

    def damage(root: Path) -> None:
        path = find(root)
        path.write_bytes(b"\x00" * path.stat().st_size)

    return damage


def scarred(find: Callable[[Path], Path]) -> Damage:
    """A file has its size, its begin and its end, and zeros in the middle."""

    def damage(root: Path) -> None:
        path = find(root)
        whole = path.read_bytes()
        third = len(whole) // 3
        path.write_bytes(whole[:third] + b"\x00" * third + whole[2 * third :])

    return damage


def lose_index(root: Path) -> None:
    """All files of an index are gone."""
    shutil.rmtree(index_files(root)[0].parent)


def lose_part_of_index(root: Path) -> None:
    """One of its files is."""
    index_files(root)[0].unlink()


def zero_index(root: Path) -> None:
    """Its files have their sizes, and nothing else."""
    for path in index_files(root):
        path.write_bytes(b"\x00" * path.stat().st_size)


def lose_table(root: Path) -> None:
    """The whole directory of a table is gone."""
    shutil.rmtree(table_path(root, "node:P"))


def foreign_cleanup(root: Path) -> None:
    """Somebody has run Lance's own cleanup, which does not know pins."""
    dataset = lance.dataset(str(table_path(root, "node:P")))
    dataset.cleanup_old_versions(retain_versions=1, delete_unverified=True)


def foreign_append(root: Path) -> None:
    """Somebody has appended with Lance: the table's head moves, which the graph does not look at."""
    uri = str(table_path(root, "node:C"))
    lance.write_dataset(pa.table({"id": ["x"], "title": ["x"]}).cast(lance.dataset(uri).schema), uri, mode="append")


# --- the manifest ------------------------------------------------------------------------------------------


def newest_manifest(root: Path, path: str = MANIFEST) -> Path:
    """The file of a manifest's newest version."""
    return root / path / format_version_name(newest_number(root, path))


def newest_number(root: Path, path: str = MANIFEST) -> int:
    """The number of a manifest's newest version, readable or not."""
    return max(parse_version_number(one.name) for one in (root / path / "_versions").glob("*.manifest"))


def manifest_head(root: Path, path: str = MANIFEST) -> Path:
    """The data file of what a manifest's newest version says."""
    fragment = lance.dataset(str(root / path)).get_fragments()[-1]
    return root / path / "data" / fragment.metadata.files[0].path


def lose_manifest(root: Path) -> None:
    """The graph's own manifest is gone."""
    shutil.rmtree(root / MANIFEST)


def lose_branch_manifest(root: Path) -> None:
    """That of the only other branch is."""
    (branch,) = (root / "__branches").iterdir()
    shutil.rmtree(branch)


def side_manifest(root: Path) -> Path:
    """The newest version of the manifest of the only other branch."""
    (branch,) = (root / "__branches").iterdir()
    return newest_manifest(root, f"__branches/{branch.name}")


def rewritten_manifest(change: Callable[[list[dict[str, object]]], list[dict[str, object]]]) -> Damage:
    """The manifest, made anew with other rows."""

    def damage(root: Path) -> None:
        uri = str(root / MANIFEST)
        there = lance.dataset(uri).get_fragments()[-1].to_table().to_pylist()
        # As an earlier release wrote it, which had no digest of the rows: that would tell of any change.
        rows = change([row for row in there if row["object_type"] != "integrity"])
        shutil.rmtree(uri)
        lance.write_dataset(pa.Table.from_pylist(rows, MANIFEST_SCHEMA), uri, data_storage_version="2.2")

    return damage


def _miscounted(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    def is_it(row: dict[str, object]) -> bool:
        return row["object_type"] == "table_version" and row["table_key"] == "node:P"

    return [{**row, "row_count": 77} if is_it(row) else row for row in rows]


def _without_pin(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row for row in rows if row["object_type"] != "table_version" or row["table_key"] != "node:P"]


miscount = rewritten_manifest(_miscounted)
lose_pin = rewritten_manifest(_without_pin)


def restamp(root: Path) -> None:
    """Somebody's stamp is not ours."""
    uri = str(root / MANIFEST)
    rows = lance.dataset(uri).get_fragments()[-1].to_table().replace_schema_metadata({})
    shutil.rmtree(uri)
    lance.write_dataset(rows, uri)


def garbage_sidecar(root: Path) -> None:
    """Something that is no sidecar lies where they do."""
    (root / "__recovery").mkdir(exist_ok=True)
    (root / "__recovery" / "01JUNK.json").write_text("{not json")


def change_schema_copy(root: Path) -> None:
    """Somebody has edited the readable copy."""
    (root / SCHEMA_COPY).write_text("node X { a: String }")
