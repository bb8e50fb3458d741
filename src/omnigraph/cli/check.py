"""`omnigraph check`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.cli.options import (
    graph_options,
    is_served,
    json_option,
    open_selected_graph,
    quiet_option,
    refuse,
    resolve_graph_uri,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.errors import Kind
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.check import CheckProgress, CheckResult
    from omnigraph.ops.check_findings import Finding


@click.command("check")
@click.argument("uri", required=False)
@graph_options
@click.option("--branch", metavar="NAME", help="Only this branch; else all, and what belongs to none.")
@click.option("--quick", "is_quick", is_flag=True, help="Only manifests and files; read no row.")
@click.option(
    "--deep",
    "is_deep",
    is_flag=True,
    help="Compare every file, of the past too, with its checksum, and read every column of every row but Blobs.",
)
@click.option(
    "--record",
    "is_record",
    is_flag=True,
    help="Check deeply, and if there is no error, record checksums of files that have none.",
)
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="With --record, who the commits are by.")
@click.option("--message", metavar="TEXT", help="With --record, a message to keep with the commits.")
@quiet_option
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    branch: str | None,
    is_quick: bool,
    is_deep: bool,
    is_record: bool,
    actor: str,
    message: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """Verify a graph: manifests, files, rows, indexes.

    Nothing is changed. Everything that a branch shows is looked at: that its files are there, that its rows keep the
    rules of the schema, that edges lead to nodes, that indexes find what is there. What is found has a code and a way
    out. The exit code is 6 when there is an error among the findings, and 0 when there are only warnings and notes.

    With --deep every byte that a kept commit names is compared with its checksum. Files of earlier releases, and all on
    an object store, have names without one: --record lists theirs, in one commit for each branch that changes nothing
    else. It records nothing where it finds an error.
    """
    if is_quick and (is_deep or is_record):
        refuse("give either --quick or --deep, not both" if is_deep else "give either --quick or --record, not both")
    if message is not None and not is_record:
        refuse("--message is kept with what --record commits: give both")
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph check → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CheckProgress") -> None:
            line.show(progress.phase, rows=progress.rows, share=progress.done / max(progress.total, 1))

        if is_served():
            result = open_selected_graph(uri, store).check(
                branch=branch, quick=is_quick, deep=is_deep, record=is_record, actor=actor, message=message
            )
        else:  # it may be too damaged to be opened
            result = omnigraph.check_graph(
                target,
                branch=branch,
                quick=is_quick,
                deep=is_deep,
                record=is_record,
                actor=actor,
                message=message,
                progress=show,
            )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result, is_quick=is_quick))
    return EXIT_CODES[Kind.CORRUPT] if result.has_errors else 0


def _format_result(result: "CheckResult", *, is_quick: bool) -> str:
    looked = [
        format_count(len(result.branches), "branch").replace("branchs", "branches"),
        format_count(result.commits, "commit"),
        f"{format_count(result.versions, 'table version')}, {format_count(result.files, 'file')}",
        "no row" if is_quick else f"{result.rows_read:,} rows read",
    ]
    if result.verified or result.unrecorded:
        looked.append(f"{result.verified:,} checksums compared")
    if result.unrecorded:
        looked.append(f"{format_count(result.unrecorded, 'file')} without one")
    found = "".join(_format_finding(one) for one in result.findings)
    recorded = "".join(f"recorded on {reveal(name)}: commit {one}\n" for name, one in result.recorded.items())
    return f"{found}{'no finding: ' if not result.findings else ''}{', '.join(looked)}\n{recorded}"


def _format_finding(one: "Finding") -> str:
    branches = f" (branch {', '.join(one.branches)})" if one.branches else ""
    return (
        f"{one.severity.value}[{one.code}] {reveal(one.thing)}{reveal(branches)}: {reveal(one.message)}\n"
        f"    at {reveal(one.place)}\n"
        f"    help: {one.way_out}\n"
    )
