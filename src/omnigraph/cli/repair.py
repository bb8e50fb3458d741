"""`omnigraph repair`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import graph_options, is_served, json_option, open_selected_graph, refuse, resolve_graph_uri
from omnigraph.cli.render import format_count, print_json, print_text
from omnigraph.lang.lexer import reveal
from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.ops.repair_plan import LostStep
    from omnigraph.ops.repair_result import FileRepair, HistoryRepair, ManifestRepair, RepairResult, TableRepair

_MAX_LISTED_STEPS = 20


@click.command("repair")
@click.argument("uri", required=False)
@graph_options
@click.option("--confirm", is_flag=True, help="Publish what loses nothing; else only show what would be done.")
@click.option("--force", is_flag=True, help="With --confirm, publish also what loses rows.")
@click.option("--from", "source", metavar="COPY", help="Put damaged files back from a clone or a backup, and no more.")
@click.option("--deep", "is_deep", is_flag=True, help="Read every column of every row, but for Blobs.")
@click.option("--branch", metavar="NAME", help="Only this branch; else all.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commits are by.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commits.")
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
    """Go back to what can be read, where tables are damaged.

    A table that can't be read any more, because another tool has removed or damaged its files, goes back to the newest
    of its earlier versions that can. Without --confirm nothing is done, and what would be is shown: it is verified when
    nothing is lost by that, suspicious when rows of some commits are, and unverifiable when that can't be told.
    --confirm publishes what is verified, and ends with exit code 1 if there is more; --force --confirm publishes that
    too. No data file is rewritten or removed.

    Of what is there, only ids and the ends of edges are read, and with --deep everything: damage in the midst of a file
    is found by that alone. What a table goes back to is always read whole.

    With --from, files that are missing or damaged are put back from a copy of this very graph, which may be a clone or
    a backup, each verified first. Nothing is lost by that and no commit is made; try it before anything else.
    """
    target = resolve_graph_uri(uri, store)
    if is_served():
        if confirm or force or source is not None:
            refuse("a repair is confirmed where the graph is: leave --server out, and name the graph itself")
        result = open_selected_graph(uri, store).repair(deep=is_deep, branch=branch, actor=actor, message=message)
    else:  # it may be too damaged to be opened
        result = omnigraph.repair_graph(
            target,
            confirm=confirm,
            force=force,
            deep=is_deep,
            branch=branch,
            source=source,
            actor=actor,
            message=message,
        )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return int(result.has_refused)


def _format_result(result: "RepairResult") -> str:
    parts = [_format_file(one) for one in result.files]
    parts += [_format_manifest(one) for one in result.manifests]
    parts += [_format_history(one) for one in result.histories]
    parts += [_format_table_repair(one) for one in result.tables]
    parts += [
        f"{reveal(key)}: another tool has moved its head to version {version}; the graph does not look at that\n"
        for key, version in result.moved_heads.items()
    ]
    if not result.files and not result.manifests and not result.histories and not result.tables:
        parts.append("nothing to repair\n")
    elif result.files and not result.is_confirmed:
        parts.append("nothing was done: --confirm puts them back, and what they name is looked at then\n")
    elif not result.is_confirmed:
        parts.append("nothing was done: --confirm publishes what is verified, --force --confirm everything\n")
    return "".join(parts)


def _format_file(one: "FileRepair") -> str:
    lines = [f"{one.owner}: {one.place}", f"    {one.reason}"]
    if one.trouble is None:
        what = "put back from the copy" if one.outcome.value == "published" else "the copy has it"
        lines.append(f"    {what}, {format_bytes(one.nbytes)}")
    else:
        lines.append(f"    left as it is: {one.trouble}")
    return "".join(f"{reveal(line)}\n" for line in lines)


def _format_manifest(one: "ManifestRepair") -> str:
    if one.to_version is None:
        target = "no version of it is whole: put it back from a backup"
    else:
        target = f"version {one.to_version} is whole, of commit {one.to_commit} at {one.to_time}"
    return (
        f"manifest of {reveal(one.branch)}: {one.certainty.value}, {one.outcome.value}\n"
        f"    {reveal(one.reason)}\n"
        f"    from version {one.from_version}: {target}\n"
    )


def _format_history(one: "HistoryRepair") -> str:
    return (
        f"history of {reveal(one.branch)}: {one.certainty.value}, {one.outcome.value}\n"
        f"    {reveal(one.place)}: {reveal(one.reason)}\n"
        f"    without it, the history begins with commit {one.oldest_commit} at {one.oldest_time}\n"
    )


def _format_table_repair(one: "TableRepair") -> str:
    plan, target = one.plan, one.plan.target
    rows = 0 if target is None else target.rows
    lines = [f"{plan.pin.table_key} of {one.branch}: {plan.certainty.value}, {one.outcome.value}"]
    lines += [f"    {reason}" for reason in plan.reasons]
    lines.append(f"    {plan.remedy.value.replace('_', ' ')}: {plan.pin.rows:,} → {rows:,} rows")
    if plan.dropped_indexes:
        lines.append(
            f"    without the indexes {', '.join(plan.dropped_indexes)}: `omnigraph optimize` builds them anew"
        )
    content = [step for step in plan.lost if step.is_content]
    lines += [f"    loses {_format_step(step)}" for step in content[:_MAX_LISTED_STEPS]]
    if len(content) > _MAX_LISTED_STEPS:
        lines.append(f"    and {format_count(len(content) - _MAX_LISTED_STEPS, 'commit')} more")
    lines += [f"    leaves {message}" for message in one.dangling]
    if one.commit_id is not None:
        lines.append(f"    commit {one.commit_id}")
    return "".join(f"{reveal(line)}\n" for line in lines)


def _format_step(step: "LostStep") -> str:
    return (
        f"{step.operation} {step.commit_id} of {step.actor} at {step.at}"
        f" ({step.rows_before:,} → {step.rows_after:,} rows)"
    )
