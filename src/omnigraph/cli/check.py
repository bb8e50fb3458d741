"""`omnigraph check`: verify the integrity of a graph."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.exit_codes import EXIT_CODES
from omnigraph.cli.options import (
    choose_actor,
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
@click.option("--branch", metavar="NAME", help="Only this branch; by default all, and data that belongs to none.")
@click.option("--quick", "is_quick", is_flag=True, help="Check only manifests and files; read no rows.")
@click.option(
    "--deep",
    "is_deep",
    is_flag=True,
    help="Compare every file, also of earlier commits, with its checksum, and read every column but Blobs.",
)
@click.option(
    "--record",
    "is_record",
    is_flag=True,
    help="Run a deep check, and if there is no error, record the checksums of files without one.",
)
@click.option(
    "--as", "actor", default="anonymous", metavar="ACTOR", help="With --record, the actor recorded with the commits."
)
@click.option("--message", metavar="TEXT", help="With --record, a message stored with the commits.")
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

    Checks for each branch that its files exist, that its rows satisfy the constraints of the schema, that edges
    reference existing nodes, and that indexes find all rows. Nothing is changed. Each finding has a code and a way out.

    With --deep every file of a kept commit is compared with its checksum. Files of earlier releases, and all files on
    an object store, have none in their names: --record stores their checksums, in one commit per branch that changes
    nothing else. It records nothing if it finds an error.

    Exit code: 0 without errors (warnings and notes are fine), 6 if a finding is an error.
    """
    if is_quick and (is_deep or is_record):
        refuse("give either --quick or --deep, not both" if is_deep else "give either --quick or --record, not both")
    if message is not None and not is_record:
        refuse("--message is stored with the commits of --record: give both")
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph check → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CheckProgress") -> None:
            line.show(progress.phase, rows=progress.rows, share=progress.done / max(progress.total, 1))

        if is_served():
            result = open_selected_graph(uri, store).check(
                branch=branch, quick=is_quick, deep=is_deep, record=is_record, actor=actor, message=message
            )
        else:
            # Not through an open graph: it may be too damaged to be opened.
            result = omnigraph.check_graph(
                target,
                branch=branch,
                quick=is_quick,
                deep=is_deep,
                record=is_record,
                actor=choose_actor(actor),
                message=message,
                progress=show,
            )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result, is_quick=is_quick))
    return EXIT_CODES[Kind.CORRUPT] if result.has_errors else 0


def _format_result(result: "CheckResult", *, is_quick: bool) -> str:
    counts = [
        format_count(len(result.branches), "branch", "branches"),
        format_count(result.commits, "commit"),
        f"{format_count(result.versions, 'table version')}, {format_count(result.files, 'file')}",
        "no row" if is_quick else f"{result.rows_read:,} rows read",
    ]
    if result.verified or result.unrecorded:
        counts.append(f"{result.verified:,} checksums compared")
    if result.unrecorded:
        counts.append(f"{format_count(result.unrecorded, 'file')} without one")
    findings = "".join(_format_finding(finding) for finding in result.findings)
    recorded = "".join(f"recorded on {reveal(name)}: commit {commit}\n" for name, commit in result.recorded.items())
    return f"{findings}{'no finding: ' if not result.findings else ''}{', '.join(counts)}\n{recorded}"


def _format_finding(finding: "Finding") -> str:
    branches = f" (branch {', '.join(finding.branches)})" if finding.branches else ""
    return (
        f"{finding.severity.value}[{finding.code}] {reveal(finding.thing)}{reveal(branches)}: "
        f"{reveal(finding.message)}\n"
        f"    at {reveal(finding.place)}\n"
        f"    help: {finding.way_out}\n"
    )
