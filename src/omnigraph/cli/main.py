"""The command `omnigraph`: its commands, and how each run ends."""

import atexit
import gc
import logging
import os
import sys
from collections.abc import Sequence

import click

from omnigraph import __version__
from omnigraph.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, report_failure
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.render import ReaderGoneError, discard_output, flush_output, require_output


def _print_release(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"omnigraph {__version__}")
        ctx.exit()


_SYNONYMS = {
    "apply": "schema apply",
    "backup": "clone",
    "compact": "optimize",
    "copy": "clone",
    "create": "init",
    "delete": "mutate",
    "doctor": "check",
    "dump": "export",
    "format": "fmt",
    "fsck": "check",
    "gc": "cleanup",
    "import": "load",
    "info": "snapshot",
    "insert": "mutate",
    "log": "commit list",
    "ls": "snapshot",
    "merge": "branch merge",
    "migrate": "schema apply",
    "new": "init",
    "plan": "schema plan",
    "restore": "repair",
    "run": "query",
    "show": "commit show",
    "sql": "spark sql",
    "stats": "snapshot",
    "status": "snapshot",
    "update": "mutate",
    "upsert": "load",
    "vacuum": "cleanup",
}
"""What people of other tools type, and what does it here."""

cli = LazyGroup(
    "omnigraph",
    help="A typed, versioned property graph.\n\nEvery command has --help, and --json for programs.",
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_release,
            help="Print the release and exit.",
        )
    ],
    synonyms=_SYNONYMS,
    context_settings={"help_option_names": ["-h", "--help"]},
    lazy={
        "branch": LazyCommand("omnigraph.cli.branch:group", "Make, list, merge and delete branches."),
        "check": LazyCommand("omnigraph.cli.check:command", "Verify a graph: manifests, files, rows, indexes."),
        "cleanup": LazyCommand("omnigraph.cli.cleanup:command", "Remove what no kept commit needs; shows it first."),
        "clone": LazyCommand(
            "omnigraph.cli.clone:command", "Copy a graph with its branches and its past to another place."
        ),
        "changes": LazyCommand("omnigraph.cli.changes:command", "Show what each commit changed, oldest first."),
        "commit": LazyCommand("omnigraph.cli.commit:group", "Read the history of a graph."),
        "completion": LazyCommand(
            "omnigraph.cli.completion:command", "Print a script that completes commands and options."
        ),
        "demo": LazyCommand(
            "omnigraph.cli.demo:command", "Show on made-up data what this can do, each step with its command."
        ),
        "diff": LazyCommand("omnigraph.cli.diff:command", "Show what differs between two states of a graph."),
        "embed": LazyCommand("omnigraph.cli.embed:command", "Compute vectors that are missing from their texts."),
        "explain": LazyCommand("omnigraph.cli.explain:command", "Show how a query is run."),
        "export": LazyCommand("omnigraph.cli.export:command", "Write a graph's rows as JSONL or Parquet."),
        "fmt": LazyCommand("omnigraph.cli.fmt:command", "Format schema and query files."),
        "history": LazyCommand(
            "omnigraph.cli.history:command", "Show every version of one node or edge, newest first."
        ),
        "indexes": LazyCommand("omnigraph.cli.indexes:command", "Show the indexes of a graph, and what they cover."),
        "init": LazyCommand("omnigraph.cli.init:command", "Make a new, empty graph."),
        "lint": LazyCommand("omnigraph.cli.lint:command", "Check schema and query files."),
        "load": LazyCommand("omnigraph.cli.load:command", "Load files into a graph, in one commit."),
        "mcp": LazyCommand("omnigraph.cli.mcp:command", "Let an agent work with a graph, by MCP on stdin and stdout."),
        "mutate": LazyCommand("omnigraph.cli.mutate:command", "Change a graph by a query, in one commit."),
        "optimize": LazyCommand(
            "omnigraph.cli.optimize:command", "Merge small files, complete indexes; no row changes."
        ),
        "policy": LazyCommand("omnigraph.cli.policy:group", "Check policies, and ask them."),
        "query": LazyCommand("omnigraph.cli.query:command", "Ask a graph by a query."),
        "recoveries": LazyCommand(
            "omnigraph.cli.recoveries:command", "List what recovery did about operations that died."
        ),
        "repair": LazyCommand("omnigraph.cli.repair:command", "Go back to what can be read, where tables are damaged."),
        "schema": LazyCommand("omnigraph.cli.schema:group", "Work with schemas."),
        "serve": LazyCommand("omnigraph.cli.serve:command", "Serve graphs over HTTP."),
        "snapshot": LazyCommand("omnigraph.cli.snapshot:command", "Show which tables a graph has, at which versions."),
        "spark": LazyCommand("omnigraph.cli.spark:group", "Ask a graph on Spark."),
        "tag": LazyCommand("omnigraph.cli.tag:group", "Name states, which cleanup then keeps."),
        "token": LazyCommand("omnigraph.cli.token:group", "Make tokens for a server."),
        "verify": LazyCommand("omnigraph.cli.verify:command", "Prove by digests that a branch is what it was."),
        "version": LazyCommand("omnigraph.cli.version:command", "Show the release, and what it works with."),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; every error has been reported by then."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # When the process ends, all that was imported would be looked through for garbage, which is a tenth of a short run.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    if os.environ.get("OMNIGRAPH_DEBUG"):
        logging.basicConfig(level=logging.WARNING, format="%(name)s %(levelname)s: %(message)s")
        logging.getLogger("omnigraph").setLevel(logging.DEBUG)
    try:
        require_output()
        result = cli.main(given, prog_name="omnigraph", standalone_mode=False)
        flush_output()
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except ReaderGoneError:
        discard_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes an exit code
        return report_failure(error, given, as_json=_has_json_flag(given))
    return result if isinstance(result, int) else 0


def _has_json_flag(arguments: Sequence[str]) -> bool:
    # An error may come before the options are parsed, so the words themselves are asked.
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    return "--json" in words
