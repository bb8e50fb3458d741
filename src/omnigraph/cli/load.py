"""`omnigraph load`: load files into a graph."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO

import click

import omnigraph
from omnigraph.cli.confirm import confirm_on_remote, find_location_kind
from omnigraph.cli.exit_codes import EXIT_INTERRUPTED, handle_signals
from omnigraph.cli.file_options import (
    build_file_options,
    file_options,
    has_file_options,
    is_table_file,
    parse_typed_paths,
)
from omnigraph.cli.input_files import STDIN, STDIN_NAME, read_source
from omnigraph.cli.options import (
    branch_option,
    engine_option,
    graph_options,
    is_graph_named,
    json_option,
    key_option,
    limit_options,
    master_option,
    open_selected_graph,
    quiet_option,
    refuse,
    resolve_graph_uri,
)
from omnigraph.cli.progress import ProgressLine, show_progress
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.errors import FileUnreadableError
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.graph.graph import Graph
    from omnigraph.ops.load import LoadResult, Progress

FAIL = "fail"
PUBLISHING = "publish"
_NON_DATA_SUFFIXES = {".pg": "a schema", ".gq": "a file of queries"}
_NOTHING_NAMED = "name what to load: files, --data FILE, --node TYPE=PATH or --edge TYPE=PATH"
# Options whose values a load takes as they are.
_PASSED_ON = (
    "if_exists",
    "on_duplicate",
    "actor",
    "message",
    "idempotency_key",
    "max_errors",
    "dry_run",
    "engine",
    "master",
    "seconds",
    "memory_bytes",
)
_COUNTS = ("read", "inserted", "updated", "unchanged", "deleted", "duplicates")


@click.command("load")
@click.argument("uri", required=False)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@graph_options
@click.option(
    "--mode",
    type=click.Choice(["append", "merge", "overwrite"]),
    required=True,
    help="Insert new rows; insert or update rows by id; or replace the tables of all types in the input.",
)
@click.option("--data", multiple=True, metavar="FILE", help="A file of graph JSONL; may be repeated.")
@click.option("--node", "nodes", multiple=True, metavar="TYPE=PATH", help="A file, directory or glob of one node type.")
@click.option("--edge", "edges", multiple=True, metavar="TYPE=PATH", help="A file, directory or glob of one edge type.")
@click.option("--map", "columns", multiple=True, metavar="TYPE.PROPERTY=COLUMN", help="The column of a property.")
@click.option("--mapping", metavar="FILE", help="A mapping of files to types and columns (TOML).")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="A column that is not loaded; may be repeated.")
@file_options
@branch_option
@click.option("--from", "source", metavar="BRANCH", help="Create --branch from this branch first.")
@click.option("--if-exists", is_flag=True, help="With --from: load into --branch if it exists already.")
@click.option(
    "--on-error", default=FAIL, show_default=True, metavar="fail|DIR", help="Load nothing, or write bad records to DIR."
)
@click.option(
    "--max-errors", type=click.IntRange(min=0), metavar="N", help="With a DIR: load nothing if there are more than N."
)
@click.option(
    "--on-duplicate",
    type=click.Choice(["error", "first", "last"]),
    default="error",
    show_default=True,
    help="Of records with equal ids: reject all but the first, or load only the first or the last.",
)
@click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")
@engine_option
@master_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@key_option
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before overwriting tables on a remote store.")
@limit_options
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    files: tuple[str, ...],
    store: str | None,
    mode: str,
    data: tuple[str, ...],
    nodes: tuple[str, ...],
    edges: tuple[str, ...],
    branch: str,
    source: str | None,
    on_error: str,
    assume_yes: bool,
    quiet: bool,
    as_json: bool,
    **values: Any,  # noqa: ANN401 - one for each of the other options
) -> int:
    """Load files into a graph in one commit.

    FILES are CSV, TSV, JSON, JSONL, Parquet, ORC, Arrow, SQLite or DuckDB: `Person.csv` holds the type Person, and
    --node, --edge or --mapping say so of other names. Options say how they are written. Files of graphs (GraphML,
    node-link JSON, the CSV and APOC JSON of Neo4j) hold several types, which have the names of their labels.

    `-` is stdin in the format of --input-format.

    --data takes graph JSONL, one node or edge per line; `-` reads stdin. --node and --edge take files of one type:
    Parquet, CSV, ORC, or JSONL with one object of properties per line. Columns are matched by name, or by --map.
    Either everything is loaded or nothing. With --on-error DIR, bad records and the reasons are written to DIR, and all
    others are loaded. With --from, the branch is created for the load, and does not exist if the load fails; an
    existing branch is rejected, or used with --if-exists.
    Spark loads very large input if it is installed; --engine and --master override this.
    """
    if uri is not None and is_graph_named(store) and is_table_file(uri):
        files = (uri, *files)
        uri = None
    _refuse_if(not (data or nodes or edges or files), _NOTHING_NAMED)
    _check_combinations(values, on_error, source)
    target = resolve_graph_uri(uri, store)
    # Others may share a remote graph.
    if mode == "overwrite" and not (assume_yes or values["dry_run"]):
        confirm_on_remote(
            target,
            action=f"overwriting tables of {target}",
            question=f"Replace the tables of {target} for all types in the input?",
            otherwise="nothing was loaded",
            is_stdin_taken=STDIN in data,
        )
    typed = {"nodes": parse_typed_paths("--node", nodes), "edges": parse_typed_paths("--edge", edges)}
    with show_progress(f"omnigraph load → {reveal(target)} ({find_location_kind(target)})", is_quiet=quiet) as line:
        reporter = _LoadProgress(line)
        with reporter.handle_interrupts():
            graph = open_selected_graph(uri, store)
            result = graph.load(
                **_open_inputs(graph, source or branch, files, data, typed, values),
                mode=mode,
                branch=branch,
                from_=source,
                on_error=None if on_error == FAIL else on_error,
                progress=reporter,
                **{name: values[name] for name in _PASSED_ON},
            )
    for warning in result.warnings:
        print_error(f"warning: {warning}")
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _check_combinations(values: "Mapping[str, Any]", on_error: str, source: str | None) -> None:
    """Refuse options that make no sense together."""
    _refuse_if(not on_error, "--on-error takes `fail` or a directory")
    _refuse_if(values["max_errors"] is not None and on_error == FAIL, "--max-errors needs --on-error DIR")
    needs_source = "--if-exists needs --from BRANCH; without --from the branch must exist"
    _refuse_if(values["if_exists"] and source is None, needs_source)
    is_spark = values["master"] is not None
    _refuse_if(is_spark and values["engine"] == "local", "--master is for Spark: leave out --engine local")


def _open_inputs(
    graph: "Graph",
    branch: str,
    files: Sequence[str],
    data: Sequence[str],
    typed: "Mapping[str, dict[str, list[str]]]",
    values: "Mapping[str, Any]",
) -> dict[str, Any]:
    """Return the arguments of a load that name its input.

    Files that the engine reads by itself stay files: it reads them faster, and on Spark too. Any option about how they
    are written makes them streams of graph JSONL.
    """
    files, typed = _replace_stdin(files, data, typed, values["input_format"])
    sources = _resolve_sources(data)
    columns = _parse_columns(values["columns"])
    mapping: str | None = values["mapping"]
    if not (files or mapping or values["ignore"] or has_file_options(values)):
        return {"data": sources, **typed, "map": columns}
    streams = omnigraph.read_files(
        files,
        graph.accepted_schema(branch=branch).source,
        mapping=None if mapping is None else read_source(mapping),
        mapping_base=PurePath(mapping or ".").parent,
        columns=columns,
        ignore=values["ignore"],
        options=build_file_options(values),
        **typed,
    )
    return {"data": [*(sources or ()), *streams]}


def _replace_stdin(
    files: Sequence[str], data: Sequence[str], typed: "Mapping[str, dict[str, list[str]]]", format_: str | None
) -> tuple[Sequence[str], "Mapping[str, dict[str, list[str]]]"]:
    """Return the files with a temporary one for `-`, which a format such as Parquet can be read from."""
    places = [*files, *(path for by_type in typed.values() for paths in by_type.values() for path in paths)]
    if STDIN not in places:
        return files, typed
    _refuse_if(format_ is None, "`-` needs --input-format, such as csv; graph JSONL from stdin is --data -")
    _refuse_if(places.count(STDIN) + data.count(STDIN) > 1, "stdin can be read only once")
    directory = click.get_current_context().with_resource(TemporaryDirectory(prefix="omnigraph-stdin-"))
    path = Path(directory, STDIN_NAME)
    with path.open("wb") as file:
        shutil.copyfileobj(_get_stdin(), file)

    def replace(paths: Sequence[str]) -> list[str]:
        return [str(path) if place == STDIN else place for place in paths]

    replaced = {kind: {name: replace(paths) for name, paths in by_type.items()} for kind, by_type in typed.items()}
    return replace(files), replaced


class _LoadProgress:
    """Shows the progress of a load, and reports the outcome of an interrupt."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._phase: str | None = None
        self._is_interrupted = False

    def __call__(self, progress: "Progress") -> None:
        """Show the progress; raise KeyboardInterrupt if a signal came before."""
        # A library may have swallowed the exception of the signal handler: the load ends here at the latest.
        if self._is_interrupted:
            raise KeyboardInterrupt
        if progress.detail:
            self._line.say(progress.detail)
            return
        self._phase = progress.phase
        share = progress.bytes / progress.total_bytes if progress.total_bytes else None
        self._line.show(progress.phase, rows=progress.rows, nbytes=progress.bytes, share=share)

    @contextmanager
    def handle_interrupts(self) -> Iterator[None]:
        """End the load on Ctrl-C and SIGTERM, and report whether it may have been loaded."""
        with handle_signals(self._interrupt):
            try:
                yield
            except KeyboardInterrupt:
                self._line.clear()
                # While the commit is being published, only the graph itself shows whether it was.
                is_publishing = self._phase == PUBLISHING
                outcome = "`omnigraph commit list` shows if it was loaded" if is_publishing else "nothing was loaded"
                print_error(f"interrupted: {outcome}")
                raise click.exceptions.Exit(EXIT_INTERRUPTED) from None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_interrupted = True
        raise KeyboardInterrupt


def _resolve_sources(data: Sequence[str]) -> list[str | BinaryIO] | None:
    if data.count(STDIN) > 1:
        refuse("stdin can be read only once")
    for path in data:
        if (what := _NON_DATA_SUFFIXES.get(PurePath(path).suffix)) is not None:
            refuse(f"`{path}` is {what} by its name, not data: --data takes graph JSONL")
    return [_get_stdin() if path == STDIN else path for path in data] or None


def _get_stdin() -> BinaryIO:
    if sys.stdin is None:  # closed by the parent process
        raise FileUnreadableError("<stdin>", "stdin is closed")
    return sys.stdin.buffer


def _parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        type_name, dot, property_name = name.partition(".")
        if not (sign and column and type_name and dot and property_name):
            refuse(f"--map takes TYPE.PROPERTY=COLUMN, not `{pair}`")
        if name in columns:
            refuse(f"--map names `{name}` twice")
        columns[name] = column
    return columns


def _format_result(result: "LoadResult") -> str:
    counts = [(name, type_counts.to_json()) for name, type_counts in (*result.nodes.items(), *result.edges.items())]
    # A column in which every type has 0 is left out.
    columns = [
        column for column in _COUNTS if column == "read" or any(type_counts.get(column) for _, type_counts in counts)
    ]
    rows = [(name, *(str(type_counts.get(column, 0)) for column in columns)) for name, type_counts in counts]
    text = format_table(("type", *columns), rows, right=columns) if rows else ""
    if result.rejected:
        location = "" if result.quarantine is None else f" in {reveal(result.quarantine)}"
        text += f"{format_count(result.rejected, 'bad record')}{location}\n"
    if result.is_dry_run:
        return f"{text}dry run: nothing was written\n"
    return f"{text}commit {result.commit_id}\n" if result.commit_id else f"{text}nothing to change\n"


def _refuse_if(condition: bool, message: str) -> None:
    if condition:
        refuse(message)
