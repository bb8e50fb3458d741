"""What is done with a damaged graph, and how each of these ended."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import omnigraph as og
from damage_files import NOBODY, GraphFile
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.check_findings import Finding, FindingSeverity
from omnigraph.options import Options
from omnigraph.storage.layout import AUDIT, RECOVERY, VERSION_NOTE
from read_thresholds import as_if_large
from rich_graph import OPTIONS, QUERIES, READS, STATES, runtime

RIGHT, ERROR, FOUND = "right", "error", "found"
WRONG, RAW, MISSED, WORSE, DESTROYED, VAGUE = "wrong", "raw", "missed", "worse", "destroyed", "vague"
ABORT, HANG = "abort", "hang"
BAD = (RIGHT, FOUND, ERROR, VAGUE, MISSED, WRONG, WORSE, DESTROYED, RAW)
"""Verdicts of this process, from good to bad."""

WRITES: dict[str, Callable[[og.Graph], object]] = {
    "insert": lambda graph: graph.mutate('query q() { insert P { name: "z", age: 9 } }'),
    "update": lambda graph: graph.mutate('query q() { update P set { age: 77 } where name = "k" }'),
    "delete": lambda graph: graph.mutate('query q() { delete P where name = "f" }'),
    "insert elsewhere": lambda graph: graph.mutate("query q() { insert N { number: 9999 } }"),
    "insert on side": lambda graph: graph.mutate("query q() { insert N { number: 9998 } }", branch="side"),
    "repeat": lambda graph: graph.mutate("query q() { insert N { number: 9001 } }", idempotency_key="number 9001"),
}
FAMILIES = {
    "rows": ("scan", "age", "alive", "key", "mail", "bio", "nicks", "numbers", "number"),
    "search": ("search", "words", "near"),
    "hops": ("hop", "hops", "edge"),
    "whole": ("export", "blobs", "history"),
}
"""The reads, by what they go through: columns, words and vectors, edges, everything."""
PLACES = ("nodes/", "edges/", "manifest", "__branches", "node:", "edge:", "_graph_", "of Knows")
"""What an error names: a file, its table or type, a manifest."""
WAYS_OUT = (
    "repair",
    "omnigraph check",
    "backup",
    "put the file back",
    "make it anew",
    "create it again",
    "delete the branch",
)
MOVING = frozenset(
    (
        "version hint",
        "version note",
        "derived",
        "sidecar",
        "transaction",
        "schema copy",
        "unnamed",
        "older audit version",
        "key run",
    )
)
"""Kinds of files that a write, recovery or cleanup may rewrite or remove."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one verb ended, and what there is to say about it."""

    name: str
    detail: str = ""

    @property
    def badness(self) -> int:
        """Return the rank among verdicts."""
        return BAD.index(self.name)


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the worst of several."""
    return max(verdicts, key=lambda one: one.badness, default=Verdict(RIGHT))


def judge(call: Callable[[], object], expected: object) -> Verdict:
    """Call something, and compare what it answers with what it should."""
    try:
        answer = call()
    except OmnigraphError as error:
        return judge_error(error)
    except BaseException as error:  # noqa: BLE001 - a panic of Lance is no Exception
        return Verdict(RAW, f"{type(error).__name__}: {error}"[:400])
    if expected is None or plain(answer) == expected:
        return Verdict(RIGHT)
    return Verdict(WRONG, f"{plain(answer)!r:.300} instead of {expected!r:.300}")


def judge_error(error: OmnigraphError) -> Verdict:
    """Say whether an error of damage is of the right kind, names what is damaged, and gives a way out."""
    text = f"{type(error).__name__} ({error.kind.value}): {error}"
    if error.kind is Kind.INTERNAL or "bug" in text:
        return Verdict(RAW, text[:400])
    is_placed = any(mark in text for mark in PLACES)
    has_way_out = any(mark in text for mark in WAYS_OUT)
    if error.kind is not Kind.CORRUPT or not is_placed or not has_way_out:
        return Verdict(VAGUE, text[:400])
    return Verdict(ERROR, text[:200])


def plain(answer: object) -> object:
    """Return an answer as JSON has it."""
    return json.loads(json.dumps(answer))


@dataclass
class World:
    """A whole graph, what it answers, and the place where it is damaged."""

    base: Path
    scratch: Path
    files: list[GraphFile]
    options: Options = OPTIONS
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    past: dict[str, Any] = field(default_factory=dict)
    notes: set[tuple[str, str, str]] = field(default_factory=set)
    written: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    copies: int = 0
    original: tuple[str, Path] | None = None
    """The place of the file that is damaged, and where it is kept as it was."""
    way: str = ""
    """How it was damaged."""

    def __post_init__(self) -> None:
        with self.open(self.base) as graph:
            self.answers = {state: self._read_all(graph, state) for state in STATES}
            commits = [(commit.id, branch) for branch in ("main", "side") for commit in graph.commits(branch=branch)]
            self.past = {commit: (branch, plain(read_past(graph, commit, branch))) for commit, branch in commits[2::9]}
        self.notes = {key_of(one) for one in self.check(self.base, deep=True)}

    def open(self, root: Path, *, read_only: bool = True) -> og.Graph:
        """Open a graph anew."""
        upkeep = replace(self.options.upkeep, index_rows=1_000_000)  # an optimize compacts, and builds no index
        return og.open_graph(str(root), read_only=read_only, runtime=runtime(replace(self.options, upkeep=upkeep)))

    def check(self, root: Path, *, deep: bool) -> Sequence[Finding]:
        """Return the findings of a check."""
        return og.check_graph(str(root), deep=deep, runtime=runtime(self.options)).findings

    def copy(self) -> Path:
        """Copy the graph as it is by hard links: nothing changes a file, but puts another in its place.

        Only the note of a manifest's newest version may be written in place.
        """
        self.copies += 1
        root = self.scratch / f"copy{self.copies}"
        for directory, _, names in os.walk(self.base):
            target = root / Path(directory).relative_to(self.base)
            target.mkdir()
            for name in names:
                place = shutil.copy2 if name == VERSION_NOTE else os.link
                place(Path(directory, name), target / name)
        return root

    def _read_all(self, graph: og.Graph, state: str) -> dict[str, Any]:
        return {name: plain(read(graph, **STATES[state])) for name, read in READS.items()}


def read_past(graph: og.Graph, commit: str, branch: str) -> object:
    """Return what an earlier commit says."""
    state = {"branch": branch, "snapshot": commit}
    return [READS[name](graph, **state) for name in ("scan", "edge", "numbers")]


def key_of(finding: Finding) -> tuple[str, str, str]:
    """Return what tells a finding from others."""
    return finding.code, finding.place, finding.message


# --- reading -----------------------------------------------------------------------------------------------


def read_state(world: World, _: GraphFile, state: str, family: str) -> Verdict:
    """Read a state in the ways of a family, each answer by itself."""
    return _judge_reads(world, world.base, state, FAMILIES[family])


def _judge_reads(world: World, root: Path, state: str, names: Iterable[str]) -> Verdict:
    expected = world.answers[state]

    def read(graph: og.Graph) -> Verdict:
        verdicts = {name: judge(partial(READS[name], graph, **STATES[state]), expected[name]) for name in names}
        return worst([replace(verdict, detail=f"{name}: {verdict.detail}") for name, verdict in verdicts.items()])

    return judge_opened(world, root, read)


def judge_opened(world: World, root: Path, use: Callable[[og.Graph], Verdict], *, read_only: bool = True) -> Verdict:
    """Open a graph and use it; that it can't be opened is a verdict too."""
    opened: list[og.Graph] = []
    opening = judge(lambda: opened.append(world.open(root, read_only=read_only)), None)
    if not opened:
        return opening
    with opened[0] as graph:
        return use(graph)


def read_large(world: World, _: GraphFile) -> Verdict:
    """Read main and the branch in the ways that are taken for large tables: by indexes and in parts."""
    with as_if_large():
        return worst([_judge_reads(world, world.base, state, QUERIES) for state in ("main", "side")])


def read_past_commits(world: World, _: GraphFile) -> Verdict:
    """Read earlier commits of both branches."""

    def read(graph: og.Graph) -> Verdict:
        return worst(
            [judge(partial(read_past, graph, commit, branch), said) for commit, (branch, said) in world.past.items()]
        )

    return judge_opened(world, world.base, read)


# --- checking ----------------------------------------------------------------------------------------------


def check(world: World, _: GraphFile) -> Verdict:
    """Run a check: whatever it finds, it ends with findings."""
    return judge(lambda: len(world.check(world.base, deep=False)) * 0, 0)


def check_deep(world: World, file: GraphFile) -> Verdict:
    """Run a deep check, which has to name the damaged file."""
    findings: list[Finding] = []
    verdict = judge(lambda: findings.extend(world.check(world.base, deep=True)), None)
    if verdict.name == RAW or not file.must_be_found(world.way):
        return verdict
    new = [one for one in findings if key_of(one) not in world.notes]
    if any(names(one, file) for one in new):
        return Verdict(FOUND)
    return Verdict(MISSED, verdict.detail or "; ".join(" ".join(key_of(one)) for one in new)[:300])


def names(finding: Finding, file: GraphFile) -> bool:
    """Return whether a finding is about a file: by its name, or for parts of blobs and indexes by their directory."""
    if file.place in (finding.place, *finding.message.split()) or file.place in finding.message:
        return True
    if file.kind.startswith("audit "):
        return finding.place == AUDIT  # a table of its own, which is moved away as a whole
    has_own_directory = file.kind == "blob" or file.kind.startswith("index ")
    return has_own_directory and Path(file.place).parent.name in finding.place + finding.message


# --- writing -----------------------------------------------------------------------------------------------


def write(world: World, file: GraphFile) -> Verdict:
    """Write to the damaged table, to another and to a branch; once the file is back, all is as it should be."""
    root = world.copy()
    done: list[str] = []

    def change(graph: og.Graph) -> Verdict:
        verdicts = {name: judge(partial(write, graph), None) for name, write in WRITES.items()}
        done.extend(name for name, verdict in verdicts.items() if verdict.name == RIGHT)
        return worst([replace(verdict, detail=f"{name}: {verdict.detail}") for name, verdict in verdicts.items()])

    refused = judge_opened(world, root, change, read_only=False)
    put_back(world, root, file)
    return worst([refused, _judge_written(world, root, tuple(done))])


def merge(world: World, file: GraphFile) -> Verdict:
    """Merge the branch; once the file is back, all is as it should be."""
    return _judge_change(world, file, "merge")


def optimize(world: World, file: GraphFile) -> Verdict:
    """Compact every table; once the file is back, every row is as it was: no damage was written anew as if whole."""
    return _judge_change(world, file, "optimize")


def _judge_change(world: World, file: GraphFile, name: str) -> Verdict:
    root = world.copy()
    done = judge_opened(world, root, lambda graph: judge(partial(CHANGES[name], graph), None), read_only=False)
    put_back(world, root, file)
    return worst([done, _judge_written(world, root, (name,) if done.name == RIGHT else ())])


def clone(world: World, _: GraphFile) -> Verdict:
    """Clone the graph: it fails, or the clone is whole."""
    source, target = world.copy(), world.scratch / f"copy{world.copies}-clone"
    copied: list[object] = []

    def copy() -> None:
        copied.append(og.clone_graph(str(source), str(target), runtime=runtime(world.options)))

    cloning = judge(copy, None)
    if not copied:
        return cloning
    reads = [_judge_reads(world, target, state, ("scan", "edge", "numbers", "blobs")) for state in STATES]
    findings = [key_of(one) for one in world.check(target, deep=True) if one.severity is FindingSeverity.ERROR]
    return worst([*reads, Verdict(WORSE, f"{findings}"[:400]) if findings else Verdict(RIGHT)])


def _optimize(graph: og.Graph) -> None:
    """Compact what can be; a table that fails is reported, and the first such report is raised again."""
    for table in graph.optimize().tables:
        if table.error is not None:
            raise TableFailedError(table.error)


class TableFailedError(OmnigraphError):
    """What maintenance says of a table that it could not work on, as an error."""

    kind = Kind.CORRUPT
    code = "table_failed"


CHANGES: dict[str, Callable[[og.Graph], object]] = {
    **WRITES,
    "merge": lambda graph: graph.merge("side"),
    "optimize": _optimize,
}


def _write(world: World, root: Path, change: Callable[[og.Graph], object]) -> None:
    with world.open(root, read_only=False) as graph:
        change(graph)


def _judge_written(world: World, root: Path, done: tuple[str, ...]) -> Verdict:
    """Compare a graph with the whole one after the same writes."""
    if done not in world.written:
        whole = world.scratch / f"written{len(world.written)}"
        _whole_copy(world).rename(whole)
        for name in done:
            _write(world, whole, CHANGES[name])
        world.written[done] = _rows(world, whole)
    verdict = judge(partial(_rows, world, root), world.written[done])
    if verdict.name != RIGHT:
        return Verdict(WORSE, f"after {done}: {verdict.detail}")
    findings = [one for one in world.check(root, deep=True) if one.severity is FindingSeverity.ERROR]
    return Verdict(WORSE, f"after {done}: {[key_of(one) for one in findings]}"[:400]) if findings else Verdict(RIGHT)


def _rows(world: World, root: Path) -> dict[str, Any]:
    with world.open(root) as graph:
        answers = {
            f"{state} {name}": plain(READS[name](graph, **STATES[state]))
            for state in STATES
            for name in ("scan", "edge", "numbers", "blobs")
        }
        answers["commits"] = sum(commit.operation != "optimize" for commit in graph.commits())
        return answers


def _whole_copy(world: World) -> Path:
    """Copy the graph without its damage, which is asked for while there is one."""
    root = world.copy()
    if world.original is not None:
        place, kept = world.original
        _link_back(kept, root / place)
    return root


def put_back(world: World, root: Path, file: GraphFile) -> None:
    """Put the file as it was into a copy, as from a backup; one that nobody needs stays as it has become."""
    if world.original is not None and file.is_needed:
        _link_back(world.original[1], root / file.place)


def _link_back(kept: Path, path: Path) -> None:
    path.unlink(missing_ok=True)
    os.link(kept, path)


# --- repairing and clearing up -----------------------------------------------------------------------------


def preview_repair(world: World, _: GraphFile) -> Verdict:
    """Let a repair say what it would do: nothing is done."""
    root = world.copy()
    verdict = judge(lambda: og.repair_graph(str(root), deep=True, runtime=runtime(world.options)), None)
    return worst([verdict, judge_kept(world, root, may_move=False)])


def repair(world: World, file: GraphFile) -> Verdict:
    """Repair what loses nothing: no answer is wrong afterwards, nothing is gone, and all is back with the file."""
    root = world.copy()
    verdict = judge(lambda: og.repair_graph(str(root), deep=True, confirm=True, runtime=runtime(world.options)), None)
    reads = [_judge_reads(world, root, state, READS_AFTER_REPAIR) for state in STATES]
    return worst([verdict, judge_kept(world, root), *reads, _judge_restored(world, root, file)])


def force_repair(world: World, file: GraphFile) -> Verdict:
    """Repair by force: rows may go, but no file, and with the damaged one every commit comes back."""
    root = world.copy()
    verdict = judge(
        lambda: og.repair_graph(str(root), deep=True, confirm=True, force=True, runtime=runtime(world.options)), None
    )
    return worst([verdict, judge_kept(world, root), _judge_restored(world, root, file)])


READS_AFTER_REPAIR = ("scan", "hop", "numbers", "blobs")


def _judge_restored(world: World, root: Path, file: GraphFile) -> Verdict:
    """Put the file back, and read what main was when it was damaged, and what the tag names."""
    if file.kind.startswith(("manifest", "older manifest", "sealed", "audit", "older audit")):
        return Verdict(RIGHT)  # what was published since stands beside it
    put_back(world, root, file)
    commit = world.answers["main"]["history"][0]
    with world.open(root) as graph:
        main = [
            judge(partial(READS[name], graph, snapshot=commit), world.answers["main"][name])
            for name in ("scan", "edge")
        ]
        old = [
            judge(partial(READS[name], graph, snapshot="old"), world.answers["old"][name]) for name in ("scan", "edge")
        ]
    bad = worst([*main, *old])
    return Verdict(RIGHT) if bad.name == RIGHT else Verdict(DESTROYED, f"with the file back: {bad.name} {bad.detail}")


def clean_up(world: World, _: GraphFile) -> Verdict:
    """Collect what no commit needs, keeping every commit: no file that the whole graph needs may go."""
    root = world.copy()

    def collect() -> None:
        with world.open(root, read_only=False) as graph:
            graph.cleanup(keep=10_000)
            graph.cleanup(keep=10_000, grace=timedelta(0), confirm=True)

    return worst([judge(collect, None), judge_kept(world, root, nobodys_may_go=True)])


def recover(world: World, _: GraphFile) -> Verdict:
    """Open for writing when every operation in flight counts as dead: files of what was published stay."""
    root = world.copy()
    options = replace(world.options, lease_seconds=0.0, heartbeat_seconds=0.1)
    opening = judge(lambda: og.open_graph(str(root), runtime=runtime(options)).close(), None)
    return worst([opening, judge_kept(world, root)])


def judge_kept(world: World, root: Path, *, may_move: bool = True, nobodys_may_go: bool = False) -> Verdict:
    """Return whether every file is still there, untouched, or put aside as a repair does it with manifests."""
    aside: set[bytes] = set()
    for path in (root / RECOVERY).glob("*") if (root / RECOVERY).exists() else ():
        aside.add(path.read_bytes())
    gone = []
    for file in world.files:
        if (may_move and file.kind in MOVING) or (nobodys_may_go and file.needed_by == NOBODY):
            continue
        source, target = world.base / file.place, root / file.place
        if not source.exists():
            continue
        is_same = target.exists() and _is_same(source, target)
        if not is_same and source.read_bytes() not in aside:
            gone.append(f"{file.group} {file.place}")
    return Verdict(DESTROYED, "; ".join(gone)[:400]) if gone else Verdict(RIGHT)


def _is_same(one: Path, other: Path) -> bool:
    return one.stat().st_ino == other.stat().st_ino or one.read_bytes() == other.read_bytes()


Verb = Callable[[World, GraphFile], Verdict]
VERBS: dict[str, Verb] = {
    **{
        f"{family} of {state}": partial(read_state, state=state, family=family)
        for state in STATES
        for family in FAMILIES
    },
    "read past": read_past_commits,
    "read large": read_large,
    "check": check,
    "check deep": check_deep,
    "write": write,
    "merge": merge,
    "optimize": optimize,
    "clone": clone,
    "repair preview": preview_repair,
    "repair": repair,
    "repair force": force_repair,
    "cleanup": clean_up,
    "recover": recover,
}


def run_verb(name: str, world: World, file: GraphFile) -> Verdict:
    """Run a verb; whatever it raises where no error was looked for counts as raw."""
    try:
        return VERBS[name](world, file)
    except BaseException as error:  # noqa: BLE001 - a panic of Lance is no Exception
        return Verdict(RAW, f"beside what was judged: {type(error).__name__}: {error}"[:400])
