"""What must hold after a run on the model, whatever happened in it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import cast

from omnigraph.commit.checksummed_json import decode_with_checksum
from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_log import ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import Snapshot
from omnigraph.commit.recovery import recover
from omnigraph.commit.recovery_log import AuditRow
from omnigraph.commit.recovery_log import read_rows as read_audit
from omnigraph.commit.sidecar import Sidecar
from omnigraph.commit.time_travel import read_at_commit
from omnigraph.commit.verdict import Verdict
from omnigraph.errors import OmnigraphError
from omnigraph.ops.cleanup import CleanupCall, cleanup
from omnigraph.ops.open import heal
from omnigraph.ops.session import Session
from omnigraph.storage.layout import RECOVERY, build_version_key
from schedules.model_actors import LISTS, Run, read_rows
from schedules.model_room import CasVersion, RowVersion
from schedules.scheduler import Process

MAX_CLEANUPS = 5
MAX_REQUESTS = 400
"""What one process of a run may send at most: three times what any of a thousand runs did."""
ORACLES: Mapping[str, tuple[str, ...]] = {
    "strict serializability": ("G0", "G1c", "G2", "realtime", "incompatible order", "lost update", "aborted"),
    "one effect of a key": ("requests of one key", "duplicate element"),
    "no acknowledged write lost": ("lost write", "lost of a merge", "told that"),
    "no half": ("half of",),
    "every pin readable": ("unreadable", "gone"),
    "a complete audit": ("not audited", "audited twice", "the audit says"),
    "no file leaked": ("leaked", "left"),
    "no sidecar left": ("its owner has ended",),
    "no wedge": ("wedge",),
    "costs": ("cost",),
}
"""What must hold, and how the problems begin that say that it does not."""


def find_oracle(problem: str) -> str:
    """Return which oracle found a problem; the problem itself if none is named for it."""
    return next((name for name, starts in ORACLES.items() if problem.startswith(starts)), problem)


def judge(run: Run) -> list[str]:
    """Return everything that is wrong after a run; no thread runs any more."""
    problems: list[str] = []
    scheduler = run.scheduler
    if scheduler.wedge is not None:
        problems.append(f"wedge: {scheduler.wedge}")
    problems += [f"crash: {task.name} raised {task.error!r}" for task in scheduler.tasks if task.error is not None]
    problems += [
        f"cost: {process.name} sent {process.requests} requests"
        for process in run.processes
        if process.requests > MAX_REQUESTS
    ]
    session = run.open_session(Process("judge"))
    audited = {row.operation_id for row in read_audit(session.store)}
    disturbed = {process.name for process in run.processes if process.faults}
    problems += [
        f"its owner has ended: {key}"
        for key, (_, owner) in run.room.sidecars.items()
        if key in run.room.objects
        and owner is not None
        and owner.name not in {*disturbed, "the store"}
        # A recovery that was disturbed itself may have fenced it, and not have come further.
        and not (disturbed and _is_fenced(run, key))
    ]
    left = {key for key in run.room.objects if key.startswith(f"{RECOVERY}/") and key.endswith(".json")}
    # Everything below happens long after the run.
    scheduler.now += timedelta(hours=1)
    try:
        problems += _judge_state(run, session, left, audited)
    except OmnigraphError as error:
        problems.append(f"unreadable: {error!r}")
    return problems


def _is_fenced(run: Run, key: str) -> bool:
    return b'"state":"abandoned"' in cast("bytes", run.room.objects[key].data)


def _judge_state(run: Run, session: Session, left: set[str], audited: set[str]) -> list[str]:
    problems = []
    heal(session, session.head())
    report = recover(session.store, session.log)
    problems += [f"not recovered: {failed}" for failed in report.failed]
    # A put of the clock that came late stays until the next pass.
    remaining = [key for key in run.room.objects if key.startswith(f"{RECOVERY}/") and key.endswith(".json")]
    problems += [f"left over: {key}" for key in remaining]
    audit = read_audit(session.store)
    rows = [row.operation_id for row in audit]
    problems += [f"audited twice: {row}" for row in set(rows) if rows.count(row) > 1]
    problems += [f"not audited: {key}" for key in left if key[len(RECOVERY) + 1 : -5] not in {*rows, *audited}]
    problems += _judge_operations(run, session, audit)
    problems += _judge_lists(run, session)
    problems += _judge_history(session)
    problems += _judge_files(run, session)
    return problems


def read_lists(session: Session, branch: str) -> dict[str, list[str]]:
    """Return all lists of the newest state of a branch."""
    tables = session.open_tables(session.checkout(branch).head().snapshot)
    return {
        f"{table}/{key}": list(items) for table in LISTS for key, items in read_rows(tables.open_table(table)).items()
    }


def _judge_lists(run: Run, session: Session) -> list[str]:
    history = run.history
    main = read_lists(session, "main")
    live = [record.name for record in session.branches.list_records()]
    merged = {key: items for branch in live for key, items in read_lists(session, branch).items()}
    # Writers of branches have lists of their own, which no other branch writes.
    final = {**{key: items for key, items in merged.items() if key not in main}, **main}
    for branch in live:
        for key, items in read_lists(session, branch).items():
            if len(items) > len(final.get(key, [])):
                final[key] = items
    # What was written to a branch that is deleted is gone with it.
    problems = []
    for name in history.gone:
        there = [attempt for attempt in history.attempts if any(key.endswith(f"/{name}") for key in attempt.appends)]
        late = [each for each in there if each.outcome == "ok" and each.start > history.gone[name]]
        # Another branch may have got its name.
        late = [] if name in live or history.created.count(name) > 1 else late
        problems += [f"told that {attempt.name} is on the branch {name}, which was deleted" for attempt in late]
        for attempt in there:
            # Perhaps it was merged before.
            attempt.outcome = "unknown"
    problems += history.find_anomalies(final)
    problems += [
        f"lost of a merge: {element}" for _, key, element in history.promised if element not in main.get(key, [])
    ]
    return problems


def _judge_operations(run: Run, session: Session, audit: Sequence[AuditRow]) -> list[str]:
    """Compare what became of every operation that had a sidecar with the audit and the files that are left."""
    problems = []
    verdicts = {row.operation_id: row.kind for row in audit}
    for data, _ in run.room.sidecars.values():
        try:
            sidecar = decode_with_checksum(data, Sidecar)
        except ValueError:
            continue
        log = ManifestLog(session.store, sidecar.branch, sidecar.manifest_path)
        try:
            is_committed = log.contains(log.final_head(), sidecar.commit_id, sidecar.base_seq)
        except NotAGraphError:
            continue
        verdict = verdicts.get(sidecar.id)
        if verdict is not None and (verdict == Verdict.ROLLED_FORWARD.value) != is_committed:
            problems.append(f"the audit says {verdict} of {sidecar.operation} {sidecar.id}: {is_committed=}")
        if not is_committed:
            problems += [f"left by {sidecar.id}: {file}" for file in sidecar.files if file in run.room.objects]
    return problems


def _judge_history(session: Session) -> list[str]:
    """Read every state that is retained, on each branch."""
    problems = []
    for branch in ("main", *(record.name for record in session.branches.list_records())):
        there = session.checkout(branch)
        head = there.head()
        is_collected = build_collected_predicate(there.log, head)
        numbers = []
        for commit in there.log.iter_history(head):
            numbers.append(commit.seq)
            if is_collected(commit):
                continue
            snapshot = read_at_commit(there.log, head, commit.id)
            tables = there.open_tables(snapshot)
            for key in snapshot.pins:
                read_rows(tables.open_table(key))
        if numbers != sorted(set(numbers), reverse=True) or numbers[-1] != 0 or len(numbers) != numbers[0] + 1:
            problems.append(f"the history of {branch} has numbers {numbers}")
    return problems


def _judge_files(run: Run, session: Session) -> list[str]:
    """Clean up without grace, and compare what is left with what the newest states need."""
    problems: list[str] = []
    for _ in range(MAX_CLEANUPS):
        problems = _clean_up(run, session)
        run.scheduler.now += timedelta(hours=1)
        # Publishing its horizon may trim a manifest, whose files are then left to the next cleanup.
        if not problems:
            break
    return problems


def _clean_up(run: Run, session: Session) -> list[str]:
    result = cleanup(session, CleanupCall(keep=1, grace=timedelta(), is_confirmed=True))
    problems = [f"not cleaned up: {table.location}: {table.error}" for table in result.tables if table.error]
    objects = run.room.objects
    needed: set[str] = set()
    for branch in ("main", *(record.name for record in session.branches.list_records())):
        for snapshot in _iter_retained(session.checkout(branch)):
            for pin in snapshot.pins.values():
                key = build_version_key(pin.path, pin.version)
                needed.add(key)
                if key not in objects:
                    problems.append(f"gone: {key} of {branch}")
                    continue
                needed |= cast("RowVersion", objects[key].data).files
    problems += [f"gone: {key}" for key in needed if key not in objects]
    problems += [f"leaked: {key}" for key in objects if key.startswith("nodes/") and key not in needed]
    used = {
        f"{key.partition('/_versions/')[0]}/data/{name}"
        for key, content in objects.items()
        if isinstance(content.data, CasVersion)
        for name, _ in content.data.fragments
    }
    paths = {session.checkout(record.name).log.path for record in session.branches.list_records()}
    # A later merge looks for a common ancestor in the journals of branches that were merged.
    paths |= {
        commit.merged_from.path for commit in session.log.iter_history(session.head()) if commit.merged_from is not None
    }
    for key in objects:
        if key.startswith("__manifest/data/") and key not in used:
            problems.append(f"leaked: {key}")
        if key.startswith("__branches/") and not any(key.startswith(f"{path}/") for path in paths):
            problems.append(f"leaked: {key} of no branch")
    return problems


def _iter_retained(session: Session) -> list[Snapshot]:
    head = session.head()
    is_collected = build_collected_predicate(session.log, head)
    return [
        read_at_commit(session.log, head, commit.id)
        for commit in session.log.iter_history(head)
        if not is_collected(commit)
    ]
