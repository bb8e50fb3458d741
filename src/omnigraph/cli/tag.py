"""`omnigraph tag`: create, list and delete tags."""

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.lazy_groups import LazyCommand, LazyGroup
from omnigraph.cli.options import (
    graph_options,
    json_option,
    open_selected_graph,
    resolve_graph_uri,
    split_name_and_uri,
)
from omnigraph.cli.render import format_table, print_json, print_text

group = LazyGroup(
    "tag",
    help="Name states, which cleanup then keeps.",
    lazy={
        "create": LazyCommand("omnigraph.cli.tag:create", "Name a state: a branch's newest, a commit, a time."),
        "delete": LazyCommand("omnigraph.cli.tag:delete", "Delete a tag; its commit may be cleaned up then."),
        "list": LazyCommand("omnigraph.cli.tag:list_", "List the tags of a graph."),
    },
)


@click.command("create")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[REF] [URI]")
@graph_options
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the tag is by.")
@json_option
def create(*, name: str, words: tuple[str, ...], store: str | None, actor: str, as_json: bool) -> int:
    """Name a state: a branch's newest, a commit, a time.

    REF is a branch, a commit's id, another tag, or BRANCH@COMMIT or BRANCH@TIME; main's newest unless given. The tag
    can be asked for wherever a commit's id can, and cleanup keeps what it names, also when its branch is deleted. Names
    are as those of branches, and none that a branch has.
    """
    ref, uri = split_name_and_uri(words, store, "REF")
    graph = open_selected_graph(uri, store)
    tag = graph.tags.create(name, ref or "main", actor=actor)
    if as_json:
        print_json({"uri": graph.uri, **tag.to_json()})
    else:
        print_text(f"tag {tag.name} is commit {tag.commit_id} of {tag.branch}\n")
    return 0


@click.command("delete")
@click.argument("name")
@click.argument("uri", required=False)
@graph_options
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask before a tag on a remote store is deleted.")
@json_option
def delete(name: str, uri: str | None, store: str | None, is_sure: bool, as_json: bool) -> int:
    """Delete a tag; its commit may be cleaned up then."""
    target = resolve_graph_uri(uri, store)
    if not is_sure:
        confirm_on_remote(
            target,
            action=f"deleting the tag `{name}` of {target}",
            question=f"Delete the tag `{name}` of {target}?",
            otherwise="nothing is deleted",
        )
    graph = open_selected_graph(uri, store)
    tag = graph.tags.delete(name)
    if as_json:
        print_json({"uri": graph.uri, "deleted": tag.to_json()})
    else:
        print_text(f"tag {tag.name} is deleted; it was commit {tag.commit_id} of {tag.branch}\n")
    return 0


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def list_(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the tags of a graph.

    Each with its commit, and the branch that this was made on, which may have been deleted since.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    tags = graph.tags.list()
    if as_json:
        print_json({"uri": graph.uri, "tags": [tag.to_json() for tag in tags]})
    else:
        rows = [(one.name, one.commit_id, one.branch, one.created_at, one.created_by) for one in tags]
        print_text(format_table(("tag", "commit", "branch", "at", "by"), rows) if rows else "no tags\n")
    return 0
