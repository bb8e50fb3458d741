"""Runs the writes of writing cases, one after the other, and looks at the graph after each.

Whatever a case lists, this always holds: a write that is refused, has no effect or is tried out leaves the same head
and the same files, and one that has an effect is one commit.
"""

import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import omnigraph as og
from corpus_format import Case, Write
from load_calls import files_below
from omnigraph.clock import SystemClock, format_instant
from omnigraph.errors import OmnigraphError
from worlds import runtime

GRAPHS = Path(__file__).parent / "corpus" / "graphs"
INPUT, REJECTED = "in.jsonl", "bad"
REJECTED_COUNT = "rejected"
KEPT = f"; the bad records and their reasons are in {REJECTED}"
"""What is said of a refused load but not of a dry run, which keeps nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOrder:
    """A load that an engine is to run: a file of graph JSONL, and where bad records go if they may be left out."""

    data: Path
    mode: str
    bad_records: Path | None
    is_dry_run: bool


LoadEngine: TypeAlias = Callable[[og.Graph, LoadOrder], og.LoadResult]
"""What runs a load. All engines are held to the same cases."""


def local_engine(graph: og.Graph, order: LoadOrder) -> og.LoadResult:
    """The engine of this process."""
    return graph.load(order.data, mode=order.mode, on_error=order.bad_records, dry_run=order.is_dry_run)


def failure_of_writes(case: Case, schema: str, engine: LoadEngine = local_engine) -> str | None:
    """What is not as the case expects; None if all is. Every load of it is run by the engine."""
    clock = _TickingClock()
    graph, place = _fresh(schema, _data_of(case), clock)
    try:
        for number, write in enumerate(case.writes):
            directory = place / f"write{number}"
            directory.mkdir()
            run = _Run(graph=graph, write=write, place=directory, engine=engine, clock=clock)
            if (problem := run.problem()) is not None:
                return f"{case.path.name}:{write.line}: {problem}"
    finally:
        shutil.rmtree(place)
    return None


def is_load_case(case: Case) -> bool:
    """Whether it loads something, so that a second engine may run it too."""
    return any(write.mode is not None for write in case.writes)


# --- graphs --------------------------------------------------------------------------------------


class _TickingClock(SystemClock):
    """Never the same instant twice, and it remembers which ones it gave."""

    def __init__(self) -> None:
        self.given: list[datetime] = []

    def now(self) -> datetime:
        self.given.append(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=len(self.given)))
        return self.given[-1]


_NUMBERS = count()


@cache
def _root() -> Path:
    directory = tempfile.TemporaryDirectory(prefix="corpus-")
    atexit.register(directory.cleanup)
    return Path(directory.name)


@cache
def _template(schema: str, data: str) -> Path:
    """A graph with these records, to copy."""
    place = _root() / f"t{next(_NUMBERS)}"
    graph = og.create_graph(str(place), schema, runtime=runtime())
    if data:
        graph.load(io.BytesIO(data.encode()), mode="append")
    return place


def _fresh(schema: str, data: str, clock: _TickingClock) -> tuple[og.Graph, Path]:
    place = _root() / f"c{next(_NUMBERS)}"
    shutil.copytree(_template(schema, data), place / "g")
    return og.open_graph(str(place / "g"), runtime=replace(runtime(), clock=clock)), place


def _data_of(case: Case) -> str:
    if case.graph is None:
        return case.blocks.get("data", "")
    return (GRAPHS / f"{case.graph}.jsonl").read_text(encoding="utf-8")


# --- one write -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """What a write without effect leaves alone: then no record can have changed either, since files never do."""

    commit_id: str
    seq: int
    files: frozenset[str]


def _state_of(graph: og.Graph) -> _State:
    commit = graph.snapshot().commit
    return _State(commit.id, commit.seq, frozenset(files_below(graph)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """Counts without zeros and the commit, or a refusal's code and message."""

    counts: dict[str, object] = field(default_factory=dict)
    commit_id: str | None = None
    refusal: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    graph: og.Graph
    write: Write
    place: Path
    engine: LoadEngine
    clock: _TickingClock

    def problem(self) -> str | None:
        """What is not as the write's expectations say."""
        before = _state_of(self.graph)
        if self.write.mode is not None and (problem := self._problem_of_dry_run(before)) is not None:
            return problem
        found = self._done(is_dry_run=False)
        after = _state_of(self.graph)
        return (
            self._problem_of_outcome(found)
            or self._problem_of_publishing(found, before, after)
            or self._problem_of_left_out()
            or self._problem_of_contents()
        )

    def _done(self, *, is_dry_run: bool) -> _Outcome:
        write = self.write
        try:
            if write.mode is None:
                text = write.text if write.text.startswith("query") else f"query q() {{\n{write.text}}}"
                return _of_mutation(self.graph.mutate(text, params=write.given))
            data = self.place / INPUT
            data.write_text(write.text, encoding="utf-8")
            kept = self.place / REJECTED if write.leaves_out and not is_dry_run else None
            tried = self.place / "tried" if write.leaves_out and is_dry_run else None
            order = LoadOrder(data=data, mode=write.mode, bad_records=kept or tried, is_dry_run=is_dry_run)
            return _of_load(self.engine(self.graph, order))
        except OmnigraphError as error:
            return _Outcome(refusal=(error.code, str(error).replace(f"{self.place}/", "")))

    def _problem_of_dry_run(self, before: _State) -> str | None:
        found = self._done(is_dry_run=True)
        if _state_of(self.graph) != before:
            return "a dry run has changed something"
        code, told = self.write.refusal or ("", "")
        refusal = (code, told.replace(KEPT, "")) if self.write.refusal else None
        asked = replace(self, write=replace(self.write, refusal=refusal))
        return asked._problem_of_outcome(found, "a dry run: ")

    def _problem_of_outcome(self, found: _Outcome, who: str = "") -> str | None:
        if self.write.refusal != found.refusal:
            shown = [
                "it is accepted" if one is None else f"refused {one[0]}:\n{one[1]}"
                for one in (self.write.refusal, found.refusal)
            ]
            return f"{who}expected: {shown[0]}\n\nfound: {shown[1]}"
        if self.write.counts is not None and (wanted := _without_zeros(self.write.counts)) != found.counts:
            return f"{who}the counts are {json.dumps(found.counts)}, not {json.dumps(wanted)}"
        return None

    def _problem_of_publishing(self, found: _Outcome, before: _State, after: _State) -> str | None:
        if found.refusal is not None or not _has_effect(found.counts):
            if found.commit_id is not None:
                return "it has no effect, but made a commit"
            return None if after == before else "it is refused or has no effect, but something has changed"
        if (found.commit_id, after.seq) != (after.commit_id, before.seq + 1):
            return f"it should be one commit: {before.seq} → {after.seq}, {found.commit_id} and {after.commit_id}"
        return None

    def _problem_of_left_out(self) -> str | None:
        if not self.write.leaves_out:
            return None
        reasons = self.place / REJECTED / "reasons.jsonl"
        lines = reasons.read_text(encoding="utf-8").splitlines() if reasons.exists() else []
        told = sorted((json.loads(line) for line in lines), key=lambda one: int(one["line"]))
        found = [f"line {one['line']}: {one['message']}".replace(f"{self.place}/", "") for one in told]
        return _difference("left out", self.write.left_out, found)

    def _problem_of_contents(self) -> str | None:
        if self.write.holds is None:
            return None
        out = io.BytesIO()
        self.graph.export(out)
        found = [_plain(json.loads(line)) for line in out.getvalue().splitlines()]
        found = self._with_named_instants(found)
        return _difference("holds", *_matched([_plain(one) for one in self.write.holds], found))

    def _with_named_instants(self, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Instants that the clock gave are `@now1`, `@now2`…, in the order of time."""
        text = json.dumps(records)
        met = [format_instant(one) for one in self.clock.given if f'"{format_instant(one)}"' in text]
        for number, instant in enumerate(met, 1):
            text = text.replace(f'"{instant}"', f'"@now{number}"')
        found: list[dict[str, Any]] = json.loads(text)
        return found


def _of_mutation(result: og.MutationResult) -> _Outcome:
    counts: dict[str, object] = {"nodes": result.affected_nodes, "edges": result.affected_edges}
    counts |= {"existing_nodes": result.existing_nodes or 0, "existing_edges": result.existing_edges or 0}
    if result.rows is not None:
        # The order of returned rows is not promised.
        counts["rows"] = sorted(result.rows, key=json.dumps)
    return _Outcome(counts=_without_zeros(counts), commit_id=result.commit_id)


def _of_load(result: og.LoadResult) -> _Outcome:
    types = (*result.nodes.items(), *result.edges.items())
    counts: dict[str, object] = {name: one.to_json() for name, one in types}
    return _Outcome(counts=_without_zeros({**counts, REJECTED_COUNT: result.rejected}), commit_id=result.commit_id)


def _without_zeros(counts: Mapping[str, object]) -> dict[str, object]:
    cut = {name: _without_zeros(one) if isinstance(one, dict) else one for name, one in counts.items()}
    return {name: one for name, one in cut.items() if one not in (0, {})}


def _has_effect(counts: Mapping[str, object]) -> bool:
    changed = {"nodes", "edges", "inserted", "updated", "deleted"}
    return any(bool(set(one) & changed) if isinstance(one, dict) else name in changed for name, one in counts.items())


# --- comparing -----------------------------------------------------------------------------------


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Without nulls, which say nothing, and with `data` where there is none."""
    data = {name: value for name, value in record.get("data", {}).items() if value is not None}
    return {**record, "data": data}


def _matched(wanted: Sequence[dict[str, Any]], found: Iterable[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Both sides as sorted lines; a found record loses its id where the one that was listed for it has none."""
    left = list(found)
    lines: list[str] = []
    for one in sorted(wanted, key=lambda record: "id" not in record):
        partner = next((other for other in left if _line(_as_listed(other, one)) == _line(one)), None)
        if partner is not None:
            left.remove(partner)
            lines.append(_line(one))
    return sorted(map(_line, wanted)), sorted([*lines, *map(_line, left)])


def _as_listed(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return found if "id" in wanted else {name: value for name, value in found.items() if name != "id"}


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=False)


def _difference(what: str, wanted: Sequence[str], found: Sequence[str]) -> str | None:
    if list(wanted) == list(found):
        return None
    lines = [*(f"- {one}" for one in wanted if one not in found), *(f"+ {one}" for one in found if one not in wanted)]
    return f"{what} (- expected, + found):\n" + "\n".join(lines or ["the same lines, more often or in another order"])
