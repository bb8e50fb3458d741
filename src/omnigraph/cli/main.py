"""The entry point of `omnigraph`: its commands, and the exit code of a run."""

import atexit
import gc
import logging
import os
import sys
from collections.abc import Sequence

import click

from omnigraph import __version__
from omnigraph.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, report_failure
from omnigraph.cli.lazy_groups import COMPLETION_VARIABLE, LazyCommand, LazyGroup, load_member
from omnigraph.cli.pandas_finder import hide_pandas
from omnigraph.cli.render import ReaderGoneError, discard_output, flush_output, require_output


def _print_release(ctx: click.Context, _parameter: click.Parameter, is_requested: bool) -> None:
    if is_requested and not ctx.resilient_parsing:
        click.echo(f"omnigraph {__version__}")
        ctx.exit()


# Words that users of other tools may try, and the command that does it here.
_SYNONYMS = {
    "apply": "schema apply",
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
    "restore": "backup restore",
    "run": "query",
    "describe": "show",
    "stats": "snapshot",
    "undo": "revert",
    "status": "snapshot",
    "update": "mutate",
    "upsert": "load",
    "vacuum": "cleanup",
}

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
        "algorithm": LazyCommand("omnigraph.cli.algorithm:command", "Run a graph algorithm on the edges of a graph."),
        "backup": LazyCommand("omnigraph.cli.groups:backup", "Back graphs up, and restore them."),
        "branch": LazyCommand("omnigraph.cli.groups:branch", "Create, list, merge and delete branches."),
        "check": LazyCommand("omnigraph.cli.check:command", "Verify a graph: manifests, files, rows, indexes."),
        "cleanup": LazyCommand(
            "omnigraph.cli.cleanup:command", "Remove data that no kept commit needs; preview by default."
        ),
        "cherry-pick": LazyCommand(
            "omnigraph.cli.undo:cherry_pick", "Apply the changes of COMMIT to another branch, in a new commit."
        ),
        "clone": LazyCommand(
            "omnigraph.cli.clone:command", "Copy a graph with its branches and history to another location."
        ),
        "changes": LazyCommand("omnigraph.cli.changes:command", "Show the changes of each commit, oldest first."),
        "commit": LazyCommand("omnigraph.cli.groups:commit", "Read the history of a graph."),
        "completion": LazyCommand(
            "omnigraph.cli.completion:command", "Print a shell completion script for commands and options."
        ),
        "config": LazyCommand("omnigraph.cli.config:command", "Show your settings, and where each value is from."),
        "demo": LazyCommand(
            "omnigraph.cli.demo:command", "Run a guided tour on generated data, showing the command of each step."
        ),
        "diff": LazyCommand("omnigraph.cli.diff:command", "Show the differences between two states of a graph."),
        "embed": LazyCommand("omnigraph.cli.embed:command", "Compute missing vectors from their texts."),
        "examples": LazyCommand(
            "omnigraph.cli.example_graphs:examples", "List the examples that come with the package, or copy one."
        ),
        "explain": LazyCommand("omnigraph.cli.explain:command", "Show the plan of a query."),
        "explore": LazyCommand(
            "omnigraph.cli.explore:command",
            "Look at a graph in the browser: its schema, rows, branches and differences.",
        ),
        "export": LazyCommand(
            "omnigraph.cli.export:command", "Export a graph's rows as JSONL, Parquet, GraphML or node-link JSON."
        ),
        "fmt": LazyCommand("omnigraph.cli.fmt:command", "Format schema and query files."),
        "graph": LazyCommand("omnigraph.cli.groups:graph", "List, create and delete the graphs of a server."),
        "history": LazyCommand(
            "omnigraph.cli.history:command", "Show every version of one node or edge, newest first."
        ),
        "indexes": LazyCommand("omnigraph.cli.indexes:command", "Show the indexes of a graph and their coverage."),
        "init": LazyCommand("omnigraph.cli.init:command", "Create a new graph: empty, with a schema, or from files."),
        "lint": LazyCommand("omnigraph.cli.lint:command", "Check schema and query files."),
        "load": LazyCommand("omnigraph.cli.load:command", "Load files into a graph in one commit."),
        "login": LazyCommand("omnigraph.cli.login:login", "Store the token of a server, for commands that name none."),
        "logout": LazyCommand("omnigraph.cli.login:logout", "Remove the stored token of a server."),
        "lsp": LazyCommand(
            "omnigraph.cli.lsp:command", "Serve an editor: diagnostics, completion, rename for .pg and .gq."
        ),
        "mcp": LazyCommand("omnigraph.cli.mcp:command", "Serve a graph to an agent over MCP on stdin and stdout."),
        "mutate": LazyCommand("omnigraph.cli.mutate:command", "Run a mutation query in one commit."),
        "optimize": LazyCommand(
            "omnigraph.cli.optimize:command", "Compact small files and complete indexes; rows stay unchanged."
        ),
        "policy": LazyCommand("omnigraph.cli.groups:policy", "Check and evaluate access policies."),
        "query": LazyCommand("omnigraph.cli.query:command", "Run a query on a graph."),
        "recoveries": LazyCommand("omnigraph.cli.recoveries:command", "List the recoveries of crashed operations."),
        "repair": LazyCommand(
            "omnigraph.cli.repair:command", "Restore damaged tables to their newest readable versions."
        ),
        "reset": LazyCommand("omnigraph.cli.undo:reset", "Return BRANCH to another state, in a new commit."),
        "revert": LazyCommand(
            "omnigraph.cli.undo:revert", "Undo the changes of COMMIT, in a new commit; later changes stay."
        ),
        "schema": LazyCommand("omnigraph.cli.groups:schema", "Infer, plan, apply and show schemas."),
        "serve": LazyCommand("omnigraph.cli.serve:command", "Serve graphs over HTTP."),
        "shell": LazyCommand("omnigraph.cli.shell:command", "Run queries on a graph as they are typed."),
        "show": LazyCommand(
            "omnigraph.cli.show:command", "Show the types of a graph, the first rows of a type, or one node or edge."
        ),
        "snapshot": LazyCommand("omnigraph.cli.snapshot:command", "Show the tables of a graph and their versions."),
        "spark": LazyCommand("omnigraph.cli.groups:spark", "Query a graph with Spark."),
        "sql": LazyCommand("omnigraph.cli.sql:command", "Run a SQL query on a graph."),
        "tag": LazyCommand("omnigraph.cli.groups:tag", "Name states of a graph, so that cleanup keeps them."),
        "token": LazyCommand("omnigraph.cli.groups:token", "Create tokens for a server."),
        "verify": LazyCommand("omnigraph.cli.verify:command", "Prove by digests that a branch was not altered."),
        "version": LazyCommand("omnigraph.cli.version:command", "Show the release and its component versions."),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, after reporting any error.

    Without `arguments`, the process belongs to the command, which takes those of the process and prepares it.
    """
    if arguments is None:
        _prepare_process()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETION_VARIABLE in os.environ:
        load_member("omnigraph.cli.word_completion:register")()
    if os.environ.get("OMNIGRAPH_DEBUG"):
        logging.basicConfig(level=logging.WARNING, format="%(name)s %(levelname)s: %(message)s")
        logging.getLogger("omnigraph").setLevel(logging.DEBUG)
    try:
        require_output()
        result = cli.main(words, prog_name="omnigraph", standalone_mode=False)
        flush_output()
    except (KeyboardInterrupt, click.Abort):
        return EXIT_INTERRUPTED
    except ReaderGoneError:
        discard_output()
        return EXIT_BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes an exit code
        return report_failure(error, words, as_json=_has_json_flag(words))
    return result if isinstance(result, int) else 0


def _prepare_process() -> None:
    """Prepare this process, which ends with the command, for a short run."""
    hide_pandas()
    # Lance reads this once, when it is loaded. Its warnings about cells of an index are nothing to act on.
    os.environ.setdefault("LANCE_LOG", "error")
    atexit.register(_skip_last_collection)


def _skip_last_collection() -> None:
    """Let Python exit without searching all imported objects for garbage, which took a tenth of a short run."""
    # DuckDB reports every object of its own that is left at exit on stderr.
    if "duckdb" not in sys.modules:
        gc.freeze()


def _has_json_flag(arguments: Sequence[str]) -> bool:
    # An error may occur before the options are parsed, so the arguments themselves are searched.
    words = list(arguments)
    if "--" in words:
        words = words[: words.index("--")]
    return "--json" in words
