"""What the children of the crash tests of branches do. Every function runs in its own process."""

from crash.jobs import armed
from load_calls import person
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.branch import create_branch, delete_branch, list_branches
from omnigraph.ops.mutate import MutationCall
from omnigraph.ops.open import open_session
from omnigraph.ops.propose import ProposeCall, propose
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from worlds import FAST, rows, state

KEPT, DOOMED = "kept", "doomed"


def opened(uri: str, *, is_read_only: bool = False) -> Session:
    """The graph, without faults."""
    return open_session(uri, is_read_only=is_read_only, runtime=Runtime(options=FAST))


def create(uri: str, name: str) -> None:
    """Make a branch, with faults."""
    session = opened(uri)
    session.store.runtime = armed()
    create_branch(session, name, actor="victim")


def delete(uri: str, name: str) -> None:
    """Delete a branch, with faults."""
    session = opened(uri)
    session.store.runtime = armed()
    delete_branch(session, name)


def load_from(uri: str, name: str) -> None:
    """Load into a branch that is made for it, with faults."""
    graph = Graph.open(uri, is_read_only=False, runtime=Runtime(options=FAST))
    graph._session.store.runtime = armed()
    graph.load([person("z"), person("y")], mode="append", branch=name, from_="main")


def propose_change(uri: str, name: str) -> None:
    """Make a branch with one mutation, with faults."""
    session = opened(uri)
    session.store.runtime = armed()
    text = 'query add() { insert Person { name: "z" } }'
    mutation = MutationCall(source=Source(text, "q"), name=None, params={}, actor="victim", message=None)
    propose(session, ProposeCall(branch=name, mutation=mutation))


def look(uri: str) -> dict[str, object]:
    """Read-only: the branches, and what each holds."""
    session = opened(uri, is_read_only=True)
    names = [branch.name for branch in list_branches(session)]
    return {name: state(session.checkout(name)) for name in names}


def go_on(uri: str) -> dict[str, object]:
    """Right after the crash: finish what is half done, make the branch again, write to it, delete it."""
    session = opened(uri)
    rows_left = sorted(session.head().snapshot.manifest.branches)
    names = [branch.name for branch in list_branches(session)]
    if DOOMED not in names:
        create_branch(session, DOOMED, actor="successor")
    branch = session.checkout(DOOMED)
    write_tables(branch, [TableWrite(table_key="node:A", upsert=rows({"next": 1}))], operation="next", actor="x")
    value = state(branch)["node:A"]
    delete_branch(session, DOOMED)
    return {"rows": rows_left, "names": names, "value": value, "after": [one.name for one in list_branches(session)]}


def people(uri: str) -> dict[str, list[str]]:
    """By branch, the persons."""
    graph = Graph.open(uri, is_read_only=True, runtime=Runtime(options=FAST))
    return {
        branch.name: sorted(graph.table("Person", branch=branch.name).to_table(columns=["id"])["id"].to_pylist())
        for branch in graph.branches.list()
    }
