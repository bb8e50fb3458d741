"""`omnigraph mutate`: run a mutation query."""

import re
from functools import partial
from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.confirm import can_ask, confirm
from omnigraph.cli.input_files import STDIN
from omnigraph.cli.options import (
    json_option,
    key_option,
    limit_options,
    open_selected_graph,
    parse_params,
    query_options,
    read_query,
    split_name_and_uri,
)
from omnigraph.cli.render import format_count, format_table, print_error, print_json, print_text
from omnigraph.cli.row_changes import format_changes

if TYPE_CHECKING:
    from collections.abc import Callable

    from omnigraph.ops.mutate import MutationResult
    from omnigraph.ops.mutation_preview import MutationPreview

# More deleted rows than this are asked about at a terminal.
MAX_UNASKED_DELETES = 1_000
# A mutation that deletes few rows is counted again if another writer was faster, but not for ever.
_MAX_ATTEMPTS = 5
# Whether a text may delete: a query without this word can't, and needs no count before it is run.
_DELETE = re.compile(r"\bdelete\b")


@click.command("mutate")
@query_options
@click.option("--if-commit", metavar="ID", help="Run only if this commit is still the newest.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commit.")
@click.option("--message", metavar="TEXT", help="A message stored with the commit.")
@key_option
@click.option("--dry-run", is_flag=True, help="Show what would change; nothing is written.")
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before deleting more than 1,000 rows.")
@limit_options
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    params: str | None,
    pairs: tuple[str, ...],
    branch: str,
    if_commit: str | None,
    actor: str,
    message: str | None,
    idempotency_key: str | None,
    dry_run: bool,
    assume_yes: bool,
    seconds: float | None,
    memory_bytes: int | None,
    as_json: bool,
) -> int:
    """Run a mutation query in one commit.

    NAME selects one query of the file; it can be omitted if there is only one. A single word is the URI, unless the
    graph is given by --store or OMNIGRAPH_STORE: then it is the NAME. `-` reads the queries from stdin. A mutation
    without effect makes no commit. The rows of `returning` are printed before the counts. At a terminal, deleting more
    than 1,000 rows is asked about first, and then done only if the graph is still in the state it was asked about.
    """
    name, uri = split_name_and_uri(words, store)
    source = read_query(path, text)
    run = partial(
        open_selected_graph(uri, store, read_only=dry_run).mutate,
        source,
        name=name,
        params=parse_params(params, pairs),
        branch=branch,
        actor=actor,
        message=message,
        idempotency_key=idempotency_key,
        seconds=seconds,
        memory_bytes=memory_bytes,
    )
    if dry_run:
        result = run(if_commit=if_commit, dry_run=True)
    elif not assume_yes and can_ask(is_stdin_taken=path == STDIN) and _DELETE.search(source.text):
        result = _run_after_asking(run, if_commit)
    else:
        result = run(if_commit=if_commit)
    if as_json:
        print_json(result.to_json())
    else:
        print_text(format_mutation(result))
    return 0


def _run_after_asking(run: "Callable[..., MutationResult]", if_commit: str | None) -> "MutationResult":
    """Run a mutation that may delete, after the user agreed if it deletes many rows; the answer holds for one state.

    Raises:
        click.exceptions.Exit: The user declined.
        ConflictError: Another writer changed the state after the user agreed.
    """
    attempts = 0
    while True:
        attempts += 1
        preview = run(if_commit=if_commit, dry_run=True).preview
        assert preview is not None  # noqa: S101 - a dry run has one
        is_many = preview.deleted > MAX_UNASKED_DELETES
        if is_many:
            print_error(_format_preview(preview).rstrip())
            confirm(
                "deleting so many rows",
                question=f"Delete {preview.deleted:,} rows?",
                otherwise="nothing was changed",
            )
        try:
            # What was counted, and agreed to, holds for this state only.
            return run(if_commit=preview.base_commit)
        except omnigraph.ConflictError:
            if is_many or if_commit is not None or attempts == _MAX_ATTEMPTS:
                raise


def format_mutation(result: "MutationResult") -> str:
    """Format what a mutation did, or would do: the rows it returns, counts, and its commit."""
    counts = f"{format_count(result.affected_nodes, 'node')}, {format_count(result.affected_edges, 'edge')}"
    existing = (result.existing_nodes or 0) + (result.existing_edges or 0)
    if existing:
        counts += f" ({existing:,} existed)"
    rows = ""
    if result.rows is not None and result.columns is not None:
        cells = [[_format_cell(row[name]) for name in result.columns] for row in result.rows]
        rows = format_table(result.columns, cells) + "\n" if cells else "no rows returned\n"
    if result.preview is not None:
        return rows + _format_preview(result.preview)
    if result.commit_id is None:
        return f"{rows}{counts}: nothing to change\n"
    return f"{rows}{counts}\ncommit {result.commit_id}\n"


def _format_preview(preview: "MutationPreview") -> str:
    """Format what would change: the counts by type, and the first rows of each type."""
    if not preview.types:
        return "nothing would change\n"
    numbers = ("inserted", "updated", "deleted")
    counts = [(name, str(of.inserted), str(of.updated), str(of.deleted)) for name, of in preview.types.items()]
    text = f"would change in commit {preview.base_commit}:\n{format_table(('type', *numbers), counts, right=numbers)}"
    text += "\n" + format_changes(preview.changes)
    hidden = sum(of.inserted + of.updated + of.deleted for of in preview.types.values()) - len(preview.changes)
    return text + (f"and {hidden:,} more\n" if hidden else "")


def _format_cell(value: object) -> str:
    """Format a value of a returned row; anything but a text as JSON."""
    # Only a mutation that returns rows needs it, and `--help` must stay cheap.
    import msgspec  # noqa: PLC0415

    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
