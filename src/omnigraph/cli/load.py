"""`omnigraph load`."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import click

from omnigraph.cli.confirm import confirm_on_remote, find_location_kind
from omnigraph.cli.exit_codes import EXIT_INTERRUPTED
from omnigraph.cli.input_files import STDIN
from omnigraph.cli.options import (
    branch_option,
    engine_option,
    graph_options,
    json_option,
    limit_options,
    master_option,
    open_selected_graph,
    quiet_option,
    resolve_graph_uri,
)
from omnigraph.cli.progress import ProgressLine, show_progress
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.errors import FileUnreadableError
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.load import LoadResult, Progress

FAIL = "fail"
PUBLISHING = "publish"
_NON_DATA_SUFFIXES = {".pg": "a schema", ".gq": "a file of queries"}
_COUNTS = ("read", "inserted", "updated", "unchanged", "deleted")


@click.command("load")
@click.argument("uri", required=False)
@graph_options
@click.option(
    "--mode",
    type=click.Choice(["append", "merge", "overwrite"]),
    required=True,
    help="Add new rows; add or update rows by id; or replace the tables that the input names.",
)
@click.option("--data", multiple=True, metavar="FILE", help="Graph JSONL; may be given several times.")
@click.option("--node", "nodes", multiple=True, metavar="TYPE=PATH", help="A file, directory or glob of one node type.")
@click.option("--edge", "edges", multiple=True, metavar="TYPE=PATH", help="A file, directory or glob of one edge type.")
@click.option("--map", "columns", multiple=True, metavar="TYPE.PROPERTY=COLUMN", help="A column with another name.")
@branch_option
@click.option("--from", "source", metavar="BRANCH", help="Make --branch from this one first.")
@click.option("--if-exists", is_flag=True, help="With --from: if --branch is there already, load into it as it is.")
@click.option(
    "--on-error", default=FAIL, show_default=True, metavar="fail|DIR", help="Load nothing, or put bad records into DIR."
)
@click.option("--max-errors", type=click.IntRange(min=0), metavar="N", help="With a DIR: load nothing beyond so many.")
@click.option("--dry-run", is_flag=True, help="Check everything and write nothing.")
@engine_option
@master_option
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commit is by.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commit.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Repeating a load with its key within 7 days does nothing again; another request with it is refused.",
)
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask before a graph on a remote store is overwritten.")
@limit_options
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    mode: str,
    data: tuple[str, ...],
    nodes: tuple[str, ...],
    edges: tuple[str, ...],
    columns: tuple[str, ...],
    branch: str,
    source: str | None,
    if_exists: bool,
    on_error: str,
    max_errors: int | None,
    dry_run: bool,
    engine: str,
    master: str | None,
    actor: str,
    message: str | None,
    idempotency_key: str | None,
    is_sure: bool,
    seconds: float | None,
    memory_bytes: int | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Load files into a graph, in one commit.

    --data takes graph JSONL, one node or edge a line; `-` as the file is stdin. --node and --edge take files of one
    type: Parquet, CSV, ORC, or JSONL with one object of properties a line. Columns are found by name, or by --map.
    Either everything is loaded or nothing. With --on-error DIR, bad records and the reasons go to DIR, and the others
    are loaded. With --from, the branch is made for the load, and is not there if the load fails; a branch that is there
    already is refused, or used as it is with --if-exists.
    Spark takes very large input where it is installed; --engine and --master choose otherwise.
    """
    _refuse_if(not (data or nodes or edges), "name what to load: --data FILE, --node TYPE=PATH or --edge TYPE=PATH")
    _refuse_if(max_errors is not None and on_error == FAIL, "--max-errors goes with --on-error DIR")
    _refuse_if(if_exists and source is None, "--if-exists goes with --from BRANCH; else the branch has to be there")
    _refuse_if(master is not None and engine == "local", "--master is for Spark: leave out --engine local")
    target = resolve_graph_uri(uri, store)
    if mode == "overwrite" and not (is_sure or dry_run):
        confirm_on_remote(
            target,
            action=f"overwriting tables of {target}",
            question=f"Replace the tables of {target} that the input names?",
            otherwise="nothing is loaded",
            is_stdin_taken=STDIN in data,
        )
    typed_nodes, typed_edges = _parse_typed_paths("--node", nodes), _parse_typed_paths("--edge", edges)
    with show_progress(f"omnigraph load → {reveal(target)} ({find_location_kind(target)})", is_quiet=quiet) as line:
        watch = _LoadProgress(line)
        with watch.handle_interrupts():
            result = open_selected_graph(uri, store).load(
                _resolve_sources(data),
                mode=mode,
                nodes=typed_nodes,
                edges=typed_edges,
                map=_parse_columns(columns),
                branch=branch,
                from_=source,
                if_exists=if_exists,
                actor=actor,
                message=message,
                idempotency_key=idempotency_key,
                on_error=None if on_error == FAIL else on_error,
                max_errors=max_errors,
                dry_run=dry_run,
                engine=engine,
                master=master,
                progress=watch,
                seconds=seconds,
                memory_bytes=memory_bytes,
            )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


class _LoadProgress:
    """Shows how far a load is, and knows it when it is interrupted."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._phase: str | None = None
        self._is_interrupted = False

    def __call__(self, progress: "Progress") -> None:
        """Take the next report; a signal whose exception got lost inside a library ends the load here."""
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
        """Ctrl-C and SIGTERM end the load alike, with a word about what is loaded."""
        with _handle_signals(self._interrupt):
            try:
                yield
            except KeyboardInterrupt:
                self._line.clear()
                may_be_done = self._phase == PUBLISHING
                told = "see `omnigraph commit list` whether it was loaded" if may_be_done else "nothing is loaded"
                print_error(f"interrupted: {told}")
                raise click.exceptions.Exit(EXIT_INTERRUPTED) from None

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_interrupted = True
        raise KeyboardInterrupt


@contextmanager
def _handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Inside, Ctrl-C and SIGTERM go to the handler."""
    if threading.current_thread() is not threading.main_thread():  # only there signals can be handled
        yield
        return
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _resolve_sources(data: Sequence[str]) -> list[str | BinaryIO] | None:
    if data.count(STDIN) > 1:
        _refuse("stdin can be read once")
    for path in data:
        if (what := _NON_DATA_SUFFIXES.get(PurePath(path).suffix)) is not None:
            _refuse(f"`{path}` is {what} by its name, and holds no data: --data takes graph JSONL")
    return [_get_stdin() if path == STDIN else path for path in data] or None


def _get_stdin() -> BinaryIO:
    if sys.stdin is None:  # whoever started us has closed it
        raise FileUnreadableError("<stdin>", "stdin is closed")
    return sys.stdin.buffer


def _parse_typed_paths(option: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, sign, path = pair.partition("=")
        if not (name and sign and path):
            _refuse(f"{option} takes TYPE=PATH, not `{pair}`")
        found.setdefault(name, []).append(path)
    return found


def _parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        type_name, dot, property_name = name.partition(".")
        if not (sign and column and type_name and dot and property_name):
            _refuse(f"--map takes TYPE.PROPERTY=COLUMN, not `{pair}`")
        if name in found:
            _refuse(f"--map names `{name}` twice")
        found[name] = column
    return found


def _format_result(result: "LoadResult") -> str:
    counts = [(name, one.to_json()) for name, one in (*result.nodes.items(), *result.edges.items())]
    shown = [column for column in _COUNTS if column == "read" or any(one.get(column) for _, one in counts)]
    rows = [(name, *(str(one.get(column, 0)) for column in shown)) for name, one in counts]
    text = format_table(("type", *shown), rows, right=shown) if rows else ""
    if result.rejected:
        place = "" if result.quarantine is None else f" in {reveal(result.quarantine)}"
        text += f"{format_count(result.rejected, 'bad record')}{place}\n"
    if result.is_dry_run:
        return f"{text}dry run: nothing was written\n"
    return f"{text}commit {result.commit_id}\n" if result.commit_id else f"{text}nothing to change\n"


def _refuse_if(condition: bool, message: str) -> None:
    if condition:
        _refuse(message)


def _refuse(message: str) -> NoReturn:
    raise click.UsageError(message, click.get_current_context())
