"""A tour of what works today: `make demo`. Each step prints the command with which you can do it yourself."""

import os
import shlex
import sys
import tempfile
from io import BytesIO, TextIOWrapper
from pathlib import Path

import omnigraph
from omnigraph.cli.main import main

ROOT = Path(__file__).parents[1]
GRAPH = "people.omni"
PEOPLE = "examples/people"
SCHEMA, QUERIES = f"{PEOPLE}/schema.pg", f"{PEOPLE}/queries.gq"

UNFORMATTED = "query   old( ) {match{$p:Person;$p.age>64 /* for now */}return{$p.name,$p.age}order{$p.age desc}limit 5}"
HASH = {"OMNIGRAPH_EMBED_PROVIDER": "hash"}


def title(text: str) -> None:
    """The heading of a step."""
    print(f"\n=== {text}\n")


def run(*arguments: str, expected: int = 0, stdin: str | None = None, variables: dict[str, str] | None = None) -> None:
    """Show a command, run it, and insist on its exit code: a tour that breaks must say so.

    It runs in this process, through the same door: starting another would take a second each time.
    """
    settings = "".join(f"{name}={value} " for name, value in (variables or {}).items())
    command = settings + shlex.join(["omnigraph", *arguments])
    print(f"$ {command}" if stdin is None else f"$ echo {shlex.quote(stdin)} | {command}", flush=True)
    before = sys.stdin
    os.environ.update(variables or {})
    if stdin is not None:
        sys.stdin = TextIOWrapper(BytesIO(stdin.encode()), encoding="utf-8")
    try:
        code = main(arguments)
    finally:
        sys.stdin = before
        for name in variables or {}:
            del os.environ[name]
    if code != 0:
        print(f"(exit code {code})", flush=True)
    if code != expected:
        sys.exit(f"the tour expected exit code {expected}")
    print(flush=True)


def languages() -> None:
    """What needs no graph."""
    title("1. A schema and queries over it, checked against each other")
    run("lint", "--schema", SCHEMA, "--query", QUERIES)

    title("2. Five mistakes, all found in one go")
    run("lint", "--schema", SCHEMA, "--query", f"{PEOPLE}/mistakes.gq", expected=1)

    title("3. One format for everybody; comments are kept")
    run("fmt", "--language", "query", "-", stdin=UNFORMATTED)

    title("4. From one schema to the next: what is safe, what is checked, what is dropped")
    run("schema", "plan", "--from", SCHEMA, "--schema", f"{PEOPLE}/next.pg")


def reading() -> None:
    """Load and ask."""
    title("5. A graph: there whole, or not at all. A file of nodes and edges becomes one commit, here through Spark")
    run("init", GRAPH, "--schema", SCHEMA, "--as", "ada")
    data = ("--data", f"{PEOPLE}/people.jsonl", "--as", "ada")
    run("load", GRAPH, "--mode", "append", *data, "--engine", "spark", "--master", "local[2]")
    run("spark", "sql", "select role, count(*) as people from Person group by role order by role", GRAPH)

    title("6. A traversal: who is two or three steps from Ada, and no acquaintance yet")
    ada = ("friends_of_friends", GRAPH, "--query", QUERIES, "--param", "name=Ada", "--param", "most=5")
    run("query", *ada)

    title("7. An aggregate; and the same for programs")
    run("query", "colleagues", GRAPH, "--query", QUERIES)
    run("query", "colleagues", GRAPH, "--query", QUERIES, "--json")

    title("8. How a query is run: what was expected of each step, and what it did")
    run("explain", *ada, "--analyze")

    title("9. A search: words in whatever form they stand, the most relevant first")
    run("query", "about", GRAPH, "--query", QUERIES, "--param", "words=running compilers")

    title("10. Vectors from texts (here by hashing words, which needs no model), and both searches in one")
    run("embed", GRAPH, "--type", "Person", "--as", "ada", variables=HASH)
    run("query", "alike", GRAPH, "--query", QUERIES, "--param", "text=programs and languages", variables=HASH)


def writing() -> None:
    """Change, break rules, go back."""
    title("11. Changes: one query is one commit, over as many tables as it takes")
    before = omnigraph.open_graph(GRAPH).commits(limit=1)[0].id
    grace = ("--query", QUERIES, "--param", "name=Grace", "--as", "bob")
    hire = ("hire", GRAPH, "--query", QUERIES, "--as", "bob")
    run("mutate", *hire, "--param", "name=Hedy", "--param", "company=Acme", "--param", "title=Engineer")
    run("mutate", "birthday", GRAPH, *grace, "--param", "age=40")

    title("12. The schema is law")
    run("mutate", "birthday", GRAPH, *grace, "--param", "age=370", expected=1)
    run("mutate", *hire, "--param", "name=Niklaus", "--param", "company=Nowhere", expected=1)
    run("mutate", "hire", GRAPH, *grace, "--param", "company=Initech", expected=1)

    title("13. Its history, and Grace as she was before her birthday")
    run("commit", "list", GRAPH)
    run("query", "person", GRAPH, "--query", QUERIES, "--param", "name=Grace", "--snapshot", before)

    title("14. What it holds: one Lance table per type, each at the version that this graph has pinned")
    run("snapshot", GRAPH)

    title("15. Out again: what load takes")
    run("export", GRAPH, "--type", "WorksAt")


def branching() -> None:
    """Try something on a branch, look at the difference, merge it."""
    title("16. A branch: the same few requests for any graph, and nobody on main sees what happens there")
    run("branch", "create", "review/hires", GRAPH)
    there = ("--query", QUERIES, "--branch", "review/hires", "--as", "cyd")
    run("mutate", "hire", GRAPH, *there, "--param", "name=Katherine", "--param", "company=Acme")
    run("mutate", "birthday", GRAPH, *there, "--param", "name=Alan", "--param", "age=33")

    title("17. What differs between the two")
    run("diff", "main", "review/hires", GRAPH)
    run("diff", "main", "review/hires", GRAPH, "--type", "WorksAt", "--format", "jsonl")

    title("18. Somebody on main thinks otherwise of Alan: the merge says so, and changes nothing")
    here = ("--query", QUERIES, "--as", "bob")
    run("mutate", "birthday", GRAPH, *here, "--param", "name=Alan", "--param", "age=34")
    run("branch", "merge", "review/hires", GRAPH, expected=3)

    title("19. Resolved: theirs are the branch's. Everything else of both sides is kept")
    run("branch", "merge", "review/hires", GRAPH, "--strategy", "theirs", "--as", "bob")
    run("query", "person", GRAPH, "--query", QUERIES, "--param", "name=Alan")
    run("branch", "delete", "review/hires", GRAPH)

    title("20. A new schema, on rows that are there, in one commit")
    run("schema", "apply", GRAPH, "--schema", f"{PEOPLE}/next.pg", "--as", "ada")

    title("21. Keeping it fast: small files merged, indexes completed; nobody waits for it")
    run("optimize", GRAPH)


def tour() -> None:
    """The steps."""
    print("omnigraph: a typed, versioned property graph. Load it, ask it, change it, and read any state it ever had.")
    print(f"The files of this tour are in {PEOPLE}/. Try the commands at the root: source .venv/bin/activate")
    with tempfile.TemporaryDirectory(prefix="omnigraph-tour-") as directory:
        (Path(directory) / "examples").symlink_to(ROOT / "examples")
        os.chdir(directory)  # so that the commands read as if they were run at the root of the repository
        languages()
        reading()
        writing()
        branching()
        os.chdir(ROOT)
    print("\nThat is the tour. Cleaning up, copies, repair and the server are in the how-to pages of docs/index.md.")
    print("docs/tutorial/first-graph.md goes through it slowly; README.md says what works and what does not.")


if __name__ == "__main__":
    tour()
