"""`omnigraph repair`: restore damaged tables and files."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import (
    choose_actor,
    graph_options,
    is_served,
    json_option,
    open_selected_graph,
    refuse,
    resolve_graph_uri,
)
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.lang.lexer import reveal
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.repair_plan import LostStep
    from omnigraph.ops.repair_result import FileRepair, HistoryRepair, ManifestRepair, RepairResult, TableRepair

# Lost commits listed per table; --json lists all of them.
_MAX_LISTED_STEPS = 20


@click.command("repair")
@click.argument("uri", required=False)
@graph_options
@click.option(
    "--confirm", is_flag=True, help="Publish repairs that lose nothing. Without it, only show what would be done."
)
@click.option("--force", is_flag=True, help="With --confirm, also publish repairs that lose rows.")
@click.option("--from", "source", metavar="COPY", help="Only restore damaged files from a clone or a backup.")
@click.option("--deep", "is_deep", is_flag=True, help="Read every column of every row, except Blobs.")
@click.option("--branch", metavar="NAME", help="Only this branch; by default all.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the commits.")
@click.option("--message", metavar="TEXT", help="A message stored with the commits.")
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    uri: str | None,
    store: str | None,
    confirm: bool,
    force: bool,
    source: str | None,
    is_deep: bool,
    branch: str | None,
    actor: str,
    message: str | None,
    as_json: bool,
) -> int:
    """Restore damaged tables to their newest readable versions.

    A table that can no longer be read, because another tool removed or damaged its files, is reset to its newest
    readable version. Without --confirm nothing is changed, and the plan is shown: a repair is verified if nothing is
    lost, suspicious if rows of some commits are lost, and unverifiable if that cannot be determined. --confirm
    publishes verified repairs; --force --confirm publishes all of them. No data file is rewritten or removed.

    Of existing data, only ids and the ends of edges are read; --deep reads everything, and is the only way to find
    damage inside a file. The version that a table is reset to is always read completely.

    With --from, missing or damaged files are restored from a copy of the same graph, such as a clone or a backup, after
    each was verified. This loses nothing and makes no commit; try it first.

    Exit code: 0 on success, 1 if --confirm did not make all repairs.
    """
    target = resolve_graph_uri(uri, store)
    if is_served():
        if confirm or force or source is not None:
            refuse("a repair cannot be confirmed over a server: leave out --server, and name the graph itself")
        result = open_selected_graph(uri, store).repair(deep=is_deep, branch=branch, actor=actor, message=message)
    else:
        # Not through an open graph: it may be too damaged to be opened.
        result = omnigraph.repair_graph(
            target,
            confirm=confirm,
            force=force,
            deep=is_deep,
            branch=branch,
            source=source,
            actor=choose_actor(actor),
            message=message,
        )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return int(result.has_refused)


def _format_result(result: "RepairResult") -> str:
    parts = [_format_file(file) for file in result.files]
    parts += [_format_manifest(manifest) for manifest in result.manifests]
    parts += [_format_history(history) for history in result.histories]
    parts += [_format_table_repair(table) for table in result.tables]
    parts += [
        f"{reveal(key)}: another tool has moved its head to version {version}; the graph does not use it\n"
        for key, version in result.moved_heads.items()
    ]
    if not result.files and not result.manifests and not result.histories and not result.tables:
        parts.append("nothing to repair\n")
    elif result.files and not result.is_confirmed:
        parts.append(
            "nothing was changed; run again with --confirm to restore the files, and then check what they reference\n"
        )
    elif not result.is_confirmed:
        parts.append("nothing was changed; --confirm publishes verified repairs, --force --confirm all repairs\n")
    return "".join(parts)


def _format_file(file: "FileRepair") -> str:
    lines = [f"{file.owner}: {file.place}", f"    {file.reason}"]
    if file.trouble is None:
        what = "restored from the copy" if file.outcome.value == "published" else "the copy has it"
        lines.append(f"    {what}, {format_bytes(file.nbytes)}")
    else:
        lines.append(f"    left unchanged: {file.trouble}")
    return "".join(f"{reveal(line)}\n" for line in lines)


def _format_manifest(manifest: "ManifestRepair") -> str:
    if manifest.to_version is None:
        target = "no version of it is intact: restore it from a backup"
    else:
        target = f"version {manifest.to_version} is intact, of commit {manifest.to_commit} at {manifest.to_time}"
    return (
        f"manifest of {reveal(manifest.branch)}: {manifest.certainty.value}, {manifest.outcome.value}\n"
        f"    {reveal(manifest.reason)}\n"
        f"    from version {manifest.from_version}: {target}\n"
    )


def _format_history(history: "HistoryRepair") -> str:
    return (
        f"history of {reveal(history.branch)}: {history.certainty.value}, {history.outcome.value}\n"
        f"    {reveal(history.place)}: {reveal(history.reason)}\n"
        f"    without it, the history begins with commit {history.oldest_commit} at {history.oldest_time}\n"
    )


def _format_table_repair(repair: "TableRepair") -> str:
    plan = repair.plan
    # Without a readable version, the table starts again without rows.
    rows = 0 if plan.target is None else plan.target.rows
    lines = [f"{plan.pin.table_key} of {repair.branch}: {plan.certainty.value}, {repair.outcome.value}"]
    lines += [f"    {reason}" for reason in plan.reasons]
    lines.append(f"    {plan.remedy.value.replace('_', ' ')}: {plan.pin.rows:,} → {rows:,} rows")
    if plan.dropped_indexes:
        lines.append(f"    without the indexes {', '.join(plan.dropped_indexes)}: `omnigraph optimize` rebuilds them")
    content = [step for step in plan.lost if step.is_content]
    lines += [f"    loses {_format_step(step)}" for step in content[:_MAX_LISTED_STEPS]]
    if len(content) > _MAX_LISTED_STEPS:
        lines.append(f"    and {format_count(len(content) - _MAX_LISTED_STEPS, 'commit')} more")
    lines += [f"    leaves {message}" for message in repair.dangling]
    if repair.commit_id is not None:
        lines.append(f"    commit {repair.commit_id}")
    return "".join(f"{reveal(line)}\n" for line in lines)


def _format_step(step: "LostStep") -> str:
    return (
        f"{step.operation} {step.commit_id} of {step.actor} at {step.at}"
        f" ({step.rows_before:,} → {step.rows_after:,} rows)"
    )
