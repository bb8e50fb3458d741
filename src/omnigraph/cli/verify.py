"""`omnigraph verify`: verify the history of a branch by its digests."""

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
@click.option("--digest", metavar="DIGEST", help="A digest printed earlier, which the history must contain.")
@quiet_option
@json_option
def command(*, uri: str | None, store: str | None, branch: str, digest: str | None, quiet: bool, as_json: bool) -> int:
    """Prove by digests that a branch was not altered.

    Every commit has a SHA-256 digest of its content and its parent's digest. All digests are computed again, back to
    the first commit; then the state of the branch is compared with its commits, and its files are checked. Nothing is
    changed. The printed digest covers the whole history: store it elsewhere, and --digest proves later that neither
    the graph nor a clone was altered since.

    Exit code: 0 on success, 6 if something was altered or the history does not contain the digest.
    """
    target = resolve_graph_uri(uri, store)
    with show_progress(f"omnigraph verify → {reveal(target)}", is_quiet=quiet) as line:

        def show(progress: "CheckProgress") -> None:
            line.show(progress.phase, rows=progress.rows, share=progress.done / max(progress.total, 1))

        if is_served():
            result = open_selected_graph(uri, store).verify(branch=branch, digest=digest)
        else:
            # Not through an open graph: it may be too damaged to be opened.
            result = omnigraph.verify_graph(target, branch=branch, digest=digest, progress=show)
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_format_result(result))
    return 0


def _format_result(result: "VerifyResult") -> str:
    begin = "since" if result.is_from_start else "(older ones can't be read)  since"
    merges = f"{result.merges} compared, {result.merges_gone} of deleted branches"
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
    """Format which commit has the requested digest."""
    if result.found_commit_id is None:
        return None
    if not result.commits_since:
        return "the digest, of the newest commit: nothing was altered"
    since = format_count(result.commits_since, "commit")
    return f"the digest, of commit {result.found_commit_id}; {since} since then"
