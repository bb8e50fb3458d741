"""A tour of what works today: `make demo`. Each step prints the command with which you can do it yourself."""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import omnigraph

ROOT = Path(__file__).parents[1]
PEOPLE = "examples/people"

UNFORMATTED = "query   old( ) {match{$p:Person;$p.age>64 /* for now */}return{$p.name,$p.age}order{$p.age desc}limit 5}"


def title(text: str) -> None:
    """The heading of a step."""
    print(f"\n=== {text}\n")


def run(*arguments: str, expected: int = 0, stdin: str | None = None) -> None:
    """Show a command, run it, and insist on its exit code: a tour that breaks must say so."""
    command = shlex.join(["omnigraph", *arguments])
    print(f"$ {command}" if stdin is None else f"$ echo {shlex.quote(stdin)} | {command}", flush=True)
    result = subprocess.run(
        [sys.executable, "-m", "omnigraph", *arguments], cwd=ROOT, input=stdin, text=True, check=False
    )
    print(f"(exit code {result.returncode})", flush=True)
    if result.returncode != expected:
        sys.exit(f"the tour expected exit code {expected}")


def tour() -> None:
    """The steps."""
    print("omnigraph: a typed, versioned property graph. Today: its two languages, and graphs that can be written.")
    print(f"The files of this tour are in {PEOPLE}/. To run the commands: source .venv/bin/activate")

    title("1. A schema and queries over it, checked against each other")
    run("lint", "--schema", f"{PEOPLE}/schema.pg", "--query", f"{PEOPLE}/queries.gq")

    title("2. Five mistakes, all found in one go")
    run("lint", "--schema", f"{PEOPLE}/schema.pg", "--query", f"{PEOPLE}/mistakes.gq", expected=1)

    title("3. One format for everybody; comments are kept")
    run("fmt", "--language", "query", "-", stdin=UNFORMATTED)

    title("4. What a query means: its logical plan")
    run("explain", "friends_of_friends", "--schema", f"{PEOPLE}/schema.pg", "--query", f"{PEOPLE}/queries.gq")

    title("5. From one schema to the next: what is safe, what is checked, what is dropped")
    run("schema", "plan", "--from", f"{PEOPLE}/schema.pg", "--schema", f"{PEOPLE}/next.pg")

    title("6. The same for programs")
    run("lint", "--json", "--schema", f"{PEOPLE}/schema.pg", "--query", f"{PEOPLE}/queries.gq")

    with tempfile.TemporaryDirectory(prefix="omnigraph-tour-") as directory:
        graph = f"{directory}/people.omni"

        title("7. A graph: there whole, or not at all")
        run("init", graph, "--schema", f"{PEOPLE}/schema.pg", "--as", "ada")

        title("8. Data, by queries: one query is one commit, over as many tables as it takes")
        queries = f"{PEOPLE}/queries.gq"
        run("mutate", graph, "-e", 'query found() { insert Company { name: "Acme", founded: 1999 } }', "--as", "ada")
        hire = ("--param", "company=Acme", "--param", "title=Engineer", "--as", "ada")
        run("mutate", "hire", graph, "--query", queries, "--param", "name=Grace", *hire)
        before = omnigraph.open_graph(graph).commits(limit=1)[0].id
        run(
            "mutate", "birthday", graph, "--query", queries, "--param", "name=Grace", "--param", "age=37", "--as", "bob"
        )

        title("9. The schema is law")
        run("mutate", "birthday", graph, "--query", queries, "--param", "name=Grace", "--param", "age=370", expected=1)
        run(
            "mutate",
            "hire",
            graph,
            "--query",
            queries,
            "--param",
            "name=Edsger",
            "--param",
            "company=Nowhere",
            expected=1,
        )
        run("mutate", "hire", graph, "--query", queries, "--param", "name=Grace", *hire, expected=1)

        title("10. What it holds: one Lance table per type, each at the version that this graph has pinned")
        run("snapshot", graph)

        title("11. Its history, and the data as it was before the birthday")
        run("commit", "list", graph)
        run("export", graph, "--type", "Person", "--snapshot", before)
        run("export", graph, "--type", "Person")

    print("\nThat is all there is so far. Running reads, loading files, branches and merges come next.")
    print("README.md says what works and what does not.")


if __name__ == "__main__":
    tour()
