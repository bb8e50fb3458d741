"""What recovery did can be read, by every door, whatever became of the branch; and commits of all branches at once."""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from branching import branch, put
from crash.jobs import OVER
from omnigraph.cli.main import main
from omnigraph.commit import recovery_log
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import list_sidecars
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.history import list_commits, read_commit_page
from omnigraph.ops.recoveries import list_recoveries
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.policy import Access, Action, Actor, Decision
from omnigraph.row_rules import RowRules
from serving import serving
from worlds import reopened, seeded_world
from worlds import rows as table_rows

pytestmark = pytest.mark.usefixtures("with_sidecars")


class Interrupting:
    """Interrupts a process at a point, as a signal would."""

    def __init__(self, point: str) -> None:
        self._point = point

    def reach(self, point: str) -> None:
        if point == self._point:
            raise KeyboardInterrupt


def die(session: Session, point: str, actor: str) -> None:
    """Leave what a writer of two tables leaves that dies at a point."""
    healthy = session.store.runtime
    session.store.runtime = replace(healthy, faults=Interrupting(point))
    writes = [TableWrite(table_key=key, upsert=table_rows({"n": 1})) for key in ("node:A", "node:B")]
    with pytest.raises(KeyboardInterrupt):
        write_tables(session, writes, operation="put", actor=actor)
    session.store.runtime = healthy


def settle(session: Session) -> None:
    session = reopened(session, OVER)
    recover(session.store, session.branches.main)
    assert list_sidecars(session.store) == ([], [])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph on which three writers died: on main, on a branch, and on a branch that was deleted since."""
    made = seeded_world(tmp_path / "g")
    side, gone = branch(made, "side"), branch(made, "gone")
    die(made, "publish.flushed", "ada")
    settle(made)
    die(side, "publish.swapped", "bob")
    settle(made)
    die(gone, "publish.flushed", "cleo")
    delete_branch(made, "gone")
    settle(made)
    return made


def test_every_recovery_is_listed_newest_first(session: Session) -> None:
    found = list_recoveries(session)

    told = [(one.kind, one.operation, one.actor, one.branch) for one in found]
    assert told == [
        ("RolledBack", "put", "cleo", "gone"),
        ("RolledForward", "put", "bob", "side"),
        ("RolledBack", "put", "ada", "main"),
    ]
    assert [one.commit_id is None for one in found] == [True, False, False]
    assert all(len(one.tables) == 2 and one.tables[0].files for one in found)
    assert [one.bytes_reclaimed > 0 for one in found] == [True, False, True]


def test_a_page_goes_on_behind_another(session: Session) -> None:
    first = list_recoveries(session, limit=2)
    rest = list_recoveries(session, before=first[-1].id)

    assert [*first, *rest] == list_recoveries(session)
    assert len(rest) == 1


def test_rows_of_earlier_releases_are_read(session: Session) -> None:
    row = recovery_log.read_rows(session.store)[0]
    old = msgspec.structs.replace(
        row, operation_id="old", recovery_id="old", outcomes='{"operation":"load","tables":[]}'
    )
    recovery_log.record_recovery(session.store, old)

    (newest, *_) = list_recoveries(session)

    assert (newest.operation, newest.branch, newest.tables) == ("load", None, ())


def test_the_command_tells_of_them(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    main(["recoveries", session.uri, "--json", "--limit", "2"])
    document = json.loads(capsys.readouterr().out)
    main(["recoveries", session.uri])
    text = capsys.readouterr().out

    assert document["recoveries"] == [one.to_json() for one in list_recoveries(session, limit=2)]
    assert text.splitlines()[0].split()[:4] == ["at", "kind", "operation", "by"]
    assert "RolledForward" in text


def test_a_graph_on_which_nobody_died_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["recoveries", seeded_world(tmp_path / "g").uri])

    assert capsys.readouterr().out == "there were no recoveries\n"


def test_a_server_pages_through_them(tmp_path: Path) -> None:
    served = serving(tmp_path, is_open_to_all=True)
    for number in range(3):
        row = recovery_log.AuditRow(
            recovery_id=f"r{number}",
            operation_id=f"o{number}",
            kind="RolledBack",
            recovery_for_actor="ada",
            graph_commit_id=None,
            outcomes='{"operation":"load","branch":"main","tables":[]}',
            bytes_reclaimed=number,
            created_at="2026-01-31T12:00:00Z",
        )
        recovery_log.record_recovery(served.graph._session.store, row)
    first = served.client.get("/graphs/people/recoveries?limit=2").json()

    rest = served.client.get(f"/graphs/people/recoveries?limit=2&cursor={first['next_cursor']}").json()
    served.service.close()

    assert [one["id"] for one in (*first["recoveries"], *rest["recoveries"])] == ["r2", "r1", "r0"]
    assert rest["next_cursor"] is None


# --- commits of all branches -------------------------------------------------------------------------


def test_a_filter_works_across_branches(session: Session) -> None:
    side = session.checkout("side")
    die(side, "publish.flushed", "dora")
    settle(session)

    here = list_commits(session, filters={"actor": "omnigraph:recovery"})
    everywhere = list_commits(session, filters={"actor": "omnigraph:recovery"}, all_branches=True)

    assert [one.branch for one in here] == ["main"]
    assert [one.branch for one in everywhere] == ["side", "main"]


def test_commits_of_all_branches_come_once_and_newest_first(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    made = [put(session, {"a": 1})]
    side = branch(session, "side")
    child = branch(side, "child", "side")
    for number in range(3):
        made += [put(one, {"a": number}) for one in (child, session, side)]

    found = list_commits(session, all_branches=True)
    page = read_commit_page(session, limit=4, all_branches=True)
    pages = [*page.commits]
    while page.next is not None:
        page = read_commit_page(session, limit=4, before=page.next, all_branches=True)
        pages += page.commits

    assert [one.id for one in found][: len(made)] == made[::-1]
    assert len({one.id for one in found}) == len(found) == len(made) + 2
    assert pages == found


def test_the_command_lists_all_branches(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    main(["commit", "list", session.uri, "--all-branches", "--json"])

    listed = json.loads(capsys.readouterr().out)["commits"]

    assert {one["branch"] for one in listed} == {"main", "side"}


def test_commits_of_a_branch_that_may_not_be_read_are_left_out(session: Session) -> None:
    class OnlyMain:
        def decide(self, access: Access) -> Decision:
            return Decision(is_allowed=access.action is Action.READ and access.branch == "main")

        def names_type(self, name: str) -> bool:
            return bool(name) and False

        def find_row_rules(self, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:
            del actor, branch, query
            return None

    session.store.runtime = replace(session.store.runtime, policy=OnlyMain())
    session.actor = Actor(name="ada")

    found = list_commits(session, all_branches=True)

    assert {one.branch for one in found} == {"main"}
