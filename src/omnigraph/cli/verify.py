"""`omnigraph verify`."""

from typing import TYPE_CHECKING

import click

import omnigraph
from omnigraph.cli.options import (
    branch_option,
    graph_options,
    is_served,
    json_option,
    open_selected_graph,
    quiet_option,
    resolve_graph_uri,
)
from omnigraph.cli.progress import show_progress
from omnigraph.cli.render import format_count, format_facts, print_json, print_text
from omnigraph.lang.lexer import reveal

if TYPE_CHECKING:
    from omnigraph.ops.check import CheckProgress
    from omnigraph.ops.verify import VerifyResult


@click.command("verify")
@click.argument("uri", required=False)
@graph_options
@branch_option
@click.option("--digest", metavar="DIGEST", help="One that was written down: the history must contain it.")
@quiet_option
@json_option
def command(*, uri: str | None, store: str | None, branch: str, digest: str | None, quiet: bool, as_json: bool) -> int:
    """Prove by digests that a branch is what it was.

    Every commit has a SHA-256 digest over what it says and over its parent's digest. All are computed again, back to
    the first; then it is checked that the branch shows what its commits say, and that its files are whole. Nothing is
    changed. The digest that is printed stands for the whole history: write it down elsewhere, and --digest proves
    later that nothing was changed since, of the graph or of a clone. The exit code is 6 when something was changed,
    or when the history does not contain the digest.
    """
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph verify → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CheckProgress") -> None:
            line.show(progress.phase, rows=progress.rows, share=progress.done / max(progress.total, 1))

        if is_served():
            result = open_selected_graph(uri, store).verify(branch=branch, digest=digest)
        else:  # it may be too damaged to be opened
            result = omnigraph.verify_graph(target, branch=branch, digest=digest, progress=show)
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "VerifyResult") -> str:
    begin = "since" if result.is_from_start else "(older ones can't be read)  since"
    merges = f"{result.merges} compared, {result.merges_gone} of branches that are gone"
    facts = {
        "branch": result.branch,
        "commit": result.commit_id,
        "digest": result.digest,
        "proved": f"{format_count(result.commits, 'commit')} {begin} {result.first_commit_id}, "
        f"{format_count(result.versions, 'table version')}",
        "merges": merges if result.merges or result.merges_gone else None,
        "unproved": ", ".join(result.unproven) or None,
        "contains": _format_digest_match(result),
    }
    return format_facts(facts)


def _format_digest_match(result: "VerifyResult") -> str | None:
    """Return which commit has the digest that was asked for."""
    if result.found_commit_id is None:
        return None
    if not result.commits_since:
        return "the digest, as that of the newest commit: nothing was changed"
    since = format_count(result.commits_since, "commit")
    return f"the digest, as that of commit {result.found_commit_id}; {since} came since"
