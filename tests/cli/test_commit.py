"""`omnigraph commit`: the history, and one commit of it."""

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.commit.manifest_types import Commit
from omnigraph.graph.graph import Graph
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, runtime, seeded_world


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A graph with four commits: init and seed by `test`, then one by `ada` and one by `bob`."""
    session = seeded_world(tmp_path / "g")
    for number, actor in enumerate(("ada", "bob")):
        write_tables(
            session,
            [
                TableWrite(table_key="node:A", append=rows({f"k{number}": 1})),
                TableWrite(table_key="node:B", delete=["abcd"[number]]),
            ],
            operation="mutate",
            actor=actor,
            message=f"by {actor}\nsecond \x1b[31mline",
        )
    return session


def commits(session: Session) -> list[Commit]:
    return list(session.log.iter_history(session.head()))


def listed(session: Session, *arguments: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    code = main(["commit", "list", session.uri, *arguments, "--json"])

    captured = capsys.readouterr()
    assert code == 0, captured.err
    return [commit["id"] for commit in json.loads(captured.out)["commits"]]


def test_the_history_is_listed_newest_first(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    ids = listed(session, capsys=capsys)

    assert ids == [commit.id for commit in commits(session)]
    assert len(ids) == 4


def test_the_list_for_people_is_a_table(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["commit", "list", "--store", session.uri])

    out = capsys.readouterr().out
    head, newest, *_ = out.splitlines()
    first = commits(session)[0]
    assert code == 0
    assert head.split() == ["commit", "at", "actor", "operation", "tables", "rows", "message"]
    assert newest.split() == [first.id, first.at, "bob", "mutate", "2", "+0", "by", "bob"]
    assert "second" not in out
    assert len(out.splitlines()) == 5


def test_a_limit_bounds_the_list(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(session, "--limit", "2", capsys=capsys) == [commit.id for commit in commits(session)[:2]]


def test_filters_narrow_the_list(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    bob, ada, seed, init = commits(session)

    assert listed(session, "--filter", "actor=ada", capsys=capsys) == [ada.id]
    assert listed(session, "--filter", "operation=init", capsys=capsys) == [init.id]
    assert listed(session, "--filter", f"since={ada.at}", capsys=capsys) == [bob.id, ada.id]
    assert listed(session, "--filter", f"until={seed.at}", "--filter", "actor=test", capsys=capsys) == [
        seed.id,
        init.id,
    ]


def test_filters_look_at_types_messages_keys_and_branches(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    bob, ada, seed, init = commits(session)
    graph = Graph(session)
    graph.branches.create("dev")
    only = [TableWrite(table_key="node:C", append=rows({"new": 1}))]
    write_tables(session.checkout("dev"), only, operation="mutate", actor="eve", idempotency_key="k-1")
    own = session.checkout("dev").head().snapshot.commit

    def on_dev(*filters: str) -> list[str]:
        words = [word for one in filters for word in ("--filter", one)]
        return listed(session, "--branch", "dev", *words, capsys=capsys)

    assert on_dev("type=A") == [bob.id, ada.id, seed.id, init.id]
    assert on_dev("type=C", "operation=mutate") == [own.id]
    assert on_dev("message=BY B") == [bob.id]
    assert on_dev("key=k-1") == [own.id] == on_dev("branch=dev")
    assert on_dev("type=Z") == []


@pytest.mark.parametrize("filters", [[], ["--filter", "actor=test"]])
def test_pages_go_on_behind_each_other(
    filters: list[str], session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = listed(session, *filters, capsys=capsys)
    found: list[str] = []
    before: list[str] = []
    for _ in whole:
        main(["commit", "list", session.uri, "--limit", "1", *filters, *before, "--json"])
        page = json.loads(capsys.readouterr().out)
        found += [commit["id"] for commit in page["commits"]]
        before = ["--before", page["next"]]

    assert found == whole
    assert before == ["--before", None]


def test_a_list_that_may_go_on_says_how(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    two = commits(session)[:2]

    main(["commit", "list", session.uri, "--limit", "2"])
    cut = capsys.readouterr().out.splitlines()
    main(["commit", "list", session.uri, "--limit", "4"])
    whole = capsys.readouterr().out.splitlines()

    assert cut[3:] == ["", f"more commits: --before {two[-1].id}"]
    assert len(whole) == 5


def test_a_page_before_an_unknown_commit_is_not_found(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["commit", "list", session.uri, "--before", "01JC0000000000000000000000"]) == 4
    assert "has no commit 01JC0000000000000000000000" in capsys.readouterr().err


def test_a_filter_that_was_likely_meant_is_named(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    main(["commit", "list", session.uri, "--filter", "acter=ada"])

    assert "did you mean `actor`?" in capsys.readouterr().err


def test_commits_that_were_collected_are_marked(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    Graph(session).cleanup(keep=2, grace=timedelta(0), confirm=True)

    main(["commit", "list", session.uri])

    operations = [line.split()[3:5] for line in capsys.readouterr().out.splitlines()[1:]]
    assert [words[1] == "(collected)" for words in operations] == [False, False, True, True]


def test_nothing_that_passes_is_said_in_words(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["commit", "list", session.uri, "--filter", "actor=omnigraph:recovery"])

    assert code == 0
    assert capsys.readouterr().out == "no commit matches the filters\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--filter", "author=ada"],
        ["--filter", "actor"],
        ["--filter", "actor="],
        ["--filter", "since=yesterday"],
        ["--filter", "actor=nobody", "--filter", "since=yesterday"],
        ["--filter", "actor=ada", "--filter", "actor=bob"],
        ["--limit", "0"],
        ["--limit", "many"],
    ],
    ids=" ".join,
)
def test_a_filter_or_limit_that_makes_no_sense_is_a_usage_error(
    arguments: list[str], session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["commit", "list", session.uri, *arguments])

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("error: ")


# --- show ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["argument", "option", "variable"])
def test_one_commit_is_shown_from_the_graph_named_in_any_way(
    way: str, session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = commits(session)[1]
    arguments = {"argument": [session.uri], "option": ["--store", session.uri], "variable": []}[way]
    if way == "variable":
        monkeypatch.setenv("OMNIGRAPH_STORE", session.uri)

    code = main(["commit", "show", commit.id, *arguments, "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == commit.to_json()


def test_a_commit_tells_which_pins_and_counts_it_changed(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    newest, before = session.resolve_snapshot(), session.resolve_snapshot(commit_id=commits(session)[1].id)

    main(["commit", "show", newest.commit.id, session.uri, "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == [
        {
            "table_key": key,
            "location": newest.pins[key].path,
            "before": str(before.pins[key].version),
            "after": str(newest.pins[key].version),
            "rows_before": rows_before,
            "rows_after": rows_after,
        }
        for key, rows_before, rows_after in (("node:A", 5, 6), ("node:B", 3, 2))
    ]


def test_a_commit_has_its_id_and_actor_by_both_names(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    commit = commits(session)[0]

    main(["commit", "show", commit.id, session.uri, "--json"])

    told = json.loads(capsys.readouterr().out)
    assert (told["graph_commit_id"], told["actor_id"]) == (told["id"], told["actor"]) == (commit.id, commit.actor)


def test_a_commit_for_people(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    commit = commits(session)[0]

    main(["commit", "show", commit.id, session.uri])

    facts, message, table = capsys.readouterr().out.split("\n\n")
    assert facts.splitlines()[:4] == [
        f"commit     {commit.id}",
        f"parent     {commit.parent}",
        "branch     main, commit number 3",
        "by         bob",
    ]
    assert message == "    by bob\n    second <U+001B>[31mline"
    headers = re.split(" {2,}", table.splitlines()[0])
    assert headers == ["table", "version before", "version after", "rows before", "rows after", "+/-"]
    assert table.splitlines()[1].split() == [
        "node:A",
        commit.changes[0].before,
        commit.changes[0].after,
        "5",
        "6",
        "+1",
    ]


def test_the_first_commit_has_tables_but_no_versions_before(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    init = commits(session)[-1]

    main(["commit", "show", init.id, session.uri])

    out = capsys.readouterr().out
    assert f"schema     none → {init.schema_after}" in out
    assert "parent" not in out
    assert out.splitlines()[-1].split() == ["node:E", "none", "1", "0", "0", "+0"]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_commit_is_found_on_whichever_branch_it_is(
    is_deleted: bool, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also on one that was merged into another, both of which are gone."""
    graph = Graph(session)
    graph.branches.create("dev")
    graph.branches.create("review")
    write = [TableWrite(table_key="node:C", append=rows({"new": 1}))]
    write_tables(session.checkout("dev"), write, operation="mutate", actor="eve")
    own = session.checkout("dev").head().snapshot.commit
    graph.merge("dev", into="review")
    graph.merge("review")
    if is_deleted:
        graph.branches.delete("dev")
        graph.branches.delete("review")

    code = main(["commit", "show", own.id, session.uri, "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out) == own.to_json()
    assert main(["commit", "show", own.id, session.uri, "--branch", "main"]) == 4


def test_rows_that_a_commit_changed_are_counted_on_demand(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    commit = commits(session)[0]

    main(["commit", "show", commit.id, session.uri, "--stat", "--json"])
    document = json.loads(capsys.readouterr().out)
    main(["commit", "show", commit.id, session.uri, "--stat"])
    text = capsys.readouterr().out

    assert {name: (one["inserted"], one["deleted"]) for name, one in document["types"].items()} == {
        "A": (1, 0),
        "B": (0, 1),
    }
    assert [line.split() for line in text.splitlines()[-2:]] == [["A", "1", "0", "0"], ["B", "0", "0", "1"]]


def test_an_unknown_commit_is_not_found(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["commit", "show", "01JC0000000000000000000000", session.uri, "--json"])

    error = json.loads(capsys.readouterr().err)["error"]
    assert code == 4
    assert (error["code"], error["wanted"]) == ("commit_not_found", "01JC0000000000000000000000")


def test_reading_the_history_changes_nothing(session: Session, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    main(["commit", "list", session.uri])
    main(["commit", "show", commits(session)[0].id, session.uri])

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_a_commit_dropped_for_good_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = og.create_graph(str(tmp_path / "h"), "node P { a: I32?  b: I32? }\nnode Q { a: I32? }", runtime=runtime())
    graph.apply_schema("node P { a: I32? }", allow_data_loss=True)

    code = main(["commit", "show", "main", graph.uri])

    assert code == 0
    assert "purged     P.b, Q\n" in capsys.readouterr().out


def test_a_commit_is_shown_by_a_tag(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    Graph(session).tags.create("v1", commits(session)[1].id)

    code = main(["commit", "show", "v1", session.uri, "--json"])

    assert (code, json.loads(capsys.readouterr().out)["id"]) == (0, commits(session)[1].id)


# --- folding ------------------------------------------------------------------------------------------------


@pytest.fixture
def kept_fast(session: Session) -> Session:
    """The same graph with `optimize`, three times `embed`, a mutation, and `optimize` by itself on top."""
    for number, operation in enumerate(("optimize", "embed", "embed", "embed", "mutate", "optimize")):
        write = TableWrite(table_key="node:A", append=rows({f"later{number}": 1}))
        write_tables(session, [write], operation=operation, actor="eve")
    return session


def table(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[list[str]]:
    assert main(["commit", "list", *arguments]) == 0
    return [re.split(" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]


def test_neighbours_that_keep_the_graph_fast_share_a_line(
    kept_fast: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    all_commits = commits(kept_fast)

    lines = table(capsys, kept_fast.uri)

    # A commit of maintenance that has no such neighbour keeps its line, and with it its id.
    assert [line[0] for line in lines[1:8]] == [
        *(commit.id for commit in all_commits[:2]),
        "…",
        *(commit.id for commit in all_commits[6:]),
    ]
    assert lines[3] == ["…", all_commits[2].at, "3 embed, 1 optimize"]
    assert lines[-1] == ["4 commits of maintenance and embedding: --include-maintenance lists them"]


@pytest.mark.parametrize(
    "arguments, expected",
    [(["--include-maintenance"], 10), (["--filter", "operation=embed"], 3)],
)
def test_who_asks_sees_each(
    arguments: list[str], expected: int, kept_fast: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = table(capsys, kept_fast.uri, *arguments)

    assert len(lines) == expected + 1
    assert all(line[0] != "…" for line in lines)


def test_programs_see_each(kept_fast: Session, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(kept_fast, capsys=capsys) == [commit.id for commit in commits(kept_fast)]


def test_a_limit_counts_lines_and_the_next_page_goes_on(kept_fast: Session, capsys: pytest.CaptureFixture[str]) -> None:
    all_commits = commits(kept_fast)

    first = table(capsys, kept_fast.uri, "--limit", "4")
    before = first[-1][0].removeprefix("more commits: --before ")
    second = table(capsys, kept_fast.uri, "--limit", "4", "--before", before)

    assert [line[0] for line in first[1:5]] == [all_commits[0].id, all_commits[1].id, "…", all_commits[6].id]
    assert before == all_commits[6].id
    assert [line[0] for line in second[1:]] == [commit.id for commit in all_commits[7:]]
