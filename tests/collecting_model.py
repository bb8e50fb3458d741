"""A model of a graph that is cleaned up: what every commit said when it was made, and what must still be readable."""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import omnigraph as og
from branching import put
from collecting import (
    Content,
    SkewedClock,
    collect,
    content,
    content_files,
    files,
    looked_at,
    needed,
    pass_time,
    small_world,
)
from omnigraph.commit.manifest_types import Commit
from omnigraph.commit.merge_base import Ancestry, Tip, find_merge_bases
from omnigraph.commit.tag_errors import TagMissingError
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.ops.branch import create_branch, delete_branch
from omnigraph.ops.history import list_commits
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import Strategy
from omnigraph.ops.open import open_session
from omnigraph.ops.optimize import OptimizeCall, optimize
from omnigraph.ops.optimize_table import UpkeepCall
from omnigraph.ops.revision import resolve_state
from omnigraph.ops.session import Session
from omnigraph.ops.tag import create_tag, delete_tag
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from upkeep_calls import AtPoint, eager
from worlds import FAST

OPTIONS = replace(
    eager(FAST), manifest_versions=6, head_commits=5, sealed_fragments=2, heartbeat_seconds=600, lease_seconds=3600
)
"""Everything that takes long to come about comes about soon; but who is dead is so only when hours have passed."""
HOUR = timedelta(hours=1)
PUBLISH = ("publish.staged", "publish.armed", "publish.applied", "publish.head_written", "publish.swapped")
STALLS = ("publish.staged", "publish.armed", "publish.applied", "publish.flushed")
"""Where a writer holds nothing that others in its process wait for."""
CLEANUP = ("cleanup.listed", "cleanup.floored", "cleanup.floor", "cleanup.marked", "cleanup.removed", "cleanup.swept")
KEYS = (("node:A",), ("node:B",), ("node:A", "node:B"))

NAMES = ("x", "y", "z")
places = st.integers(0, 3)
"""Which of the branches there are; main more often than others."""
skews = st.sampled_from([0, -0.2, 0.2, -3, 3, -40, 40]).map(lambda hours: hours * HOUR)
"""How far clocks are off: minutes, hours, days, in both directions."""
rows = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), min_size=1, max_size=3)


class HastyClock(SkewedClock):
    """A clock that was set wrongly, and by which whoever waits has waited at once: leases are long here."""

    waited: ClassVar[float] = 0.0

    def monotonic(self) -> float:
        """With all waits."""
        return super().monotonic() + HastyClock.waited

    def sleep(self, seconds: float) -> None:
        """Let it be later."""
        HastyClock.waited += seconds


class CrashError(BaseException):
    """The process died here: nothing that would run behind it does."""


def dies() -> None:
    raise CrashError


class Collected(RuleBasedStateMachine):
    """Writers, branches, tags, merges, maintenance and crashes, with cleanups in between."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="collected-"))
        self.uri = str(self.place / "graph")
        self.hours = timedelta()
        self.skew = timedelta()
        """How far the clock of whoever opens the graph is off."""
        self.said: dict[str, Content] = {}
        """By commit, what its state said when it was the newest."""
        self.made: dict[str, timedelta] = {}
        """By commit, when it was made."""
        self.gone: set[str] = set()
        """Commits that a cleanup has collected."""
        self.parents: dict[str, tuple[str, ...]] = {}
        """By commit, those that it was made from, whatever has become of them."""
        self.tags: dict[str, str] = {}
        self.writes = 9
        """How many since the last cleanup; the beginning is worth one."""

    @initialize(skew=skews)
    def begin(self, skew: timedelta) -> None:
        """The first commits, by a machine whose clock may be off."""
        self.skew = skew
        small_world(self.uri, OPTIONS, clock=SkewedClock(skew))
        self.session = self._open()
        for number in range(3):
            put(self.session, {"a": number, "b": number, "c": number}, *KEYS[number])
        self._record()

    def teardown(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def _open(self, point: str | None = None, action: Callable[[], object] = dies) -> Session:
        faults = {} if point is None else {"faults": AtPoint(point, action)}
        runtime = Runtime(options=OPTIONS, clock=HastyClock(self.skew), **faults)  # type: ignore[arg-type]  # by name
        return open_session(self.uri, is_read_only=False, runtime=runtime)

    @property
    def live(self) -> list[str]:
        return ["main", *(record.name for record in self.session.branches.list_records())]

    def _at(self, place: int) -> str:
        return self.live[place % len(self.live)]

    def _record(self) -> None:
        """Remember what the newest state of every branch says."""
        for name in self.live:
            there = self.session.checkout(name)
            snapshot = there.resolve_snapshot()
            if snapshot.commit.id not in self.said:
                for commit in list_commits(there):
                    if commit.id in self.made:
                        break
                    self.made[commit.id] = self.hours
                    self.parents[commit.id] = tuple(filter(None, (commit.parent, commit.merged_parent)))
                    try:
                        past = there.resolve_snapshot(commit_id=commit.id)
                    except og.CommitCollectedError:  # recovery made it, and the cleanup behind that took it
                        assert commit.operation == "recovery"
                        self.gone.add(commit.id)
                    else:
                        self.said[commit.id] = content(there, past)

    # --- what happens ------------------------------------------------------------------------------

    @rule(place=places, many=st.lists(rows, min_size=1, max_size=4), keys=st.sampled_from(KEYS))
    def write(self, place: int, many: list[dict[str, int]], keys: tuple[str, ...]) -> None:
        for values in many:
            put(self.session.checkout(self._at(place)), values, *keys)
            self.writes += 1
        self._record()

    @rule(place=places, row=st.sampled_from("abcdef"), key=st.sampled_from(["node:A", "node:B"]))
    def delete(self, place: int, row: str, key: str) -> None:
        write = TableWrite(table_key=key, delete=[row])
        write_tables(self.session.checkout(self._at(place)), [write], operation="delete", actor="test")
        self._record()

    @rule(place=places, back=st.integers(0, 4), values=rows, at=st.sampled_from(["back", "back", "merge", "taken"]))
    def branch(self, place: int, back: int, values: dict[str, int], at: str) -> None:
        """Take a branch at one of the newest commits, or at the very commit of the newest merge.

        Or a tag gets the name while the branch is being made: a name means one of the two.
        """
        free = [name for name in NAMES if name not in self.live]
        if not free:
            return
        source = self._at(place)
        commits = list_commits(self.session.checkout(source), limit=back + 1)
        if at == "merge":
            merges = [one for one in list_commits(self.session.checkout(source)) if one.merged_parent is not None]
            commits = merges[:1] or commits
        session = self.session
        if at == "taken":
            session = self._open("branch.written", lambda: create_tag(self._open(), free[0], ref="main", actor="test"))
        with suppress(og.CommitCollectedError, og.TagExistsError):
            create_branch(session, free[0], source=source, commit_id=commits[-1].id, actor="test")
            assert at != "taken", f"{free[0]} is a branch and a tag"
            put(self.session.checkout(free[0]), values, "node:A")
        with suppress(TagMissingError):
            delete_tag(self.session, free[0])
        self._record()

    @precondition(lambda self: len(self.live) > 1)
    @rule(place=places)
    def unbranch(self, place: int) -> None:
        if self._at(place) != "main":
            with suppress(og.BranchHasChildrenError):
                delete_branch(self.session, self._at(place))

    @rule(name=st.sampled_from(["t", "u"]), place=places, back=st.integers(0, 6))
    def tag(self, name: str, place: int, back: int) -> None:
        if name in self.tags:
            delete_tag(self.session, name)
            del self.tags[name]
            return
        source = self._at(place)
        commits = list_commits(self.session.checkout(source), limit=back + 1)
        with suppress(og.CommitCollectedError):
            self.tags[name] = create_tag(self.session, name, ref=f"{source}@{commits[-1].id}", actor="test").commit_id

    @precondition(lambda self: self.tags)
    @rule(tag=st.sampled_from(["t", "u"]))
    def branch_of_tag(self, tag: str) -> None:
        free = [name for name in NAMES if name not in self.live]
        if free and tag in self.tags:
            create_branch(self.session, free[0], source=tag, actor="test")
            self._record()

    @precondition(lambda self: len(self.live) > 1)
    @rule(one=places, other=places)
    def merge(self, one: int, other: int) -> None:
        source, into = self._at(one), self._at(other)
        if source == into:
            return
        tips = [Tip(there.log, there.log.head()) for there in map(self.session.checkout, (into, source))]
        bases = find_merge_bases(tips[0].commit.id, tips[1].commit.id, self.parents.__getitem__)
        found = Ancestry(*tips).find_divergence()
        assert {found.base_id, *found.other_bases} == {*bases}, f"{source} into {into}"
        merge(self.session, MergeCall(source=source, into=into, strategy=Strategy.THEIRS, actor="test"))
        self._record()

    @rule(place=places)
    def optimize(self, place: int) -> None:
        call = OptimizeCall(upkeep=UpkeepCall(actor="test", all_indexes=True))
        optimize(self.session.checkout(self._at(place)), call)
        self._record()

    @rule(hours=st.sampled_from([2, 10, 30]))
    def time_passes(self, hours: int) -> None:
        pass_time(self.uri, hours * HOUR)
        self.hours += hours * HOUR

    @rule(place=places, values=rows, skew=skews, stays=st.booleans())
    def write_elsewhere(self, place: int, values: dict[str, int], skew: timedelta, stays: bool) -> None:
        """A machine with a clock of its own writes in between; or the clock of this one is set."""
        ours, self.skew = self.skew, skew
        there = self._open()
        put(there.checkout(self._at(place)), values, *KEYS[0])
        if stays:
            self.session = there
        else:
            self.skew = ours
        self._record()

    @rule(place=places, values=rows, point=st.sampled_from(PUBLISH))
    def die_writing(self, place: int, values: dict[str, int], point: str) -> None:
        with suppress(CrashError):
            put(self._open(point).checkout(self._at(place)), values, *KEYS[2])
        self.session = self._open()
        self._record()

    @rule(
        place=places,
        values=rows,
        point=st.sampled_from(STALLS),
        hours=st.sampled_from([0, 30]),
        keys=st.sampled_from(KEYS),
        moves=st.booleans(),
    )
    def overtaken(
        self, place: int, values: dict[str, int], point: str, hours: int, keys: tuple[str, ...], moves: bool
    ) -> None:
        """A writer stands still while time passes, others write, and a cleanup takes all that it can."""
        name = self._at(place)

        def meanwhile() -> None:
            if moves:
                put(self.session.checkout(name), {"z": hours}, "node:A")
            self._record()
            self.time_passes(hours)
            collect(self.session, grace=timedelta())

        with suppress(og.TooSlowError, og.ConflictError, og.FencedError):
            put(self._open(point, meanwhile).checkout(name), values, *keys)
            head = self.session.checkout(name).resolve_snapshot()
            assert all(content(self.session, head)[key].items() >= values.items() for key in keys)
        self._record()
        self._check(keep=1, window=timedelta(), is_complete=False)

    # --- cleanups ----------------------------------------------------------------------------------

    @precondition(lambda self: self.writes > 2)
    @rule(
        keep=st.integers(1, 4),
        older=st.sampled_from([None, None, 5.5 * HOUR, 40.5 * HOUR]),
        grace=st.sampled_from([timedelta(), timedelta(), 12.5 * HOUR]),
    )
    def clean_up(self, keep: int, older: timedelta | None, grace: timedelta) -> None:
        self.writes = 0
        self.session = self._open()
        self._record()
        before = {path: path.stat().st_mtime for path in files(self.uri)}
        collect(self.session, keep=keep, older_than=older, grace=grace, confirm=False)
        assert before.keys() >= {path for path in files(self.uri) if path.name != "clock"}
        collect(self.session, keep=keep, older_than=older, grace=grace)
        self._record()
        self._check(keep, max(older or grace, grace), is_complete=grace == timedelta())

    @precondition(lambda self: self.writes > 2)
    @rule(keep=st.integers(1, 3), point=st.sampled_from(CLEANUP))
    def die_cleaning_up(self, keep: int, point: str) -> None:
        with suppress(CrashError):
            collect(self._open(point), keep=keep, grace=timedelta())
        self.session = self._open()
        self._record()
        self._check(keep, timedelta(), is_complete=False)

    def _check(self, keep: int, window: timedelta, *, is_complete: bool) -> None:
        """What is kept says what it said; what is not fails as it should; and nothing else is left."""
        there = looked_at(self.uri)
        for name, commit_id in self.tags.items():
            found = resolve_state(there, name)
            assert found.commit.id == commit_id
            assert content(there, found) == self.said[commit_id], f"the tag {name}"
        used: set[str] = set()
        collected: set[str] = set()
        for name in self.live:
            line = list_commits(there.checkout(name))
            for place, commit in enumerate(line):
                is_kept = place < keep or self.made[line[place - 1].id] > self.hours - window
                used |= self._read(there, name, commit, collected, is_kept=is_kept and commit.id not in self.gone)
            fork = there.branches.get_log(name).final_head().snapshot.manifest.fork
            assert fork is None or content(there, there.checkout(name).resolve_snapshot(commit_id=fork.commit_id))
        self.gone |= collected
        if is_complete and not list(Path(self.uri, "__recovery").glob("*.json")):
            for name in self.tags:
                used |= needed(self.uri, resolve_state(there, name))
            assert content_files(self.uri) - used - self._for_merges(there) == set()

    def _read(self, there: Session, name: str, commit: Commit, collected: set[str], *, is_kept: bool) -> set[str]:
        try:
            snapshot = there.checkout(name).resolve_snapshot(commit_id=commit.id)
        except og.CommitCollectedError:
            assert not is_kept, f"commit {commit.seq} of {name} should have been kept"
            collected.add(commit.id)
            return set()
        assert commit.id not in self.gone, f"commit {commit.seq} of {name} came back"
        assert content(there, snapshot) == self.said[commit.id], f"commit {commit.seq} of {name}"
        return needed(self.uri, snapshot)

    def _for_merges(self, there: Session) -> set[str]:
        """What states of deleted branches need that may be what live ones have in common."""
        found: set[str] = set()
        live = {record.path for record in there.branches.list_records()}
        for place in Path(self.uri, "__branches").glob("*"):
            path = f"__branches/{place.name}"
            if path in live:
                continue
            with suppress(og.NotAGraphError):
                log = there.branches.get_journal("deleted", path)
                head = log.final_head()
                for commit in log.iter_history(head):
                    with suppress(og.OmnigraphError, ValueError):
                        found |= needed(self.uri, read_at_commit(log, head, commit.id))
        return found
