"""`omnigraph tag`: create, list and delete tags."""

import click

from omnigraph.cli.confirm import confirm_on_remote
from omnigraph.cli.options import (
    graph_options,
    json_option,
    open_selected_graph,
    resolve_graph_uri,
    split_name_and_uri,
)
from omnigraph.cli.render import format_table, print_json, print_text


@click.command("create")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[REF] [URI]")
@graph_options
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="The actor recorded with the tag.")
@json_option
def create(*, name: str, words: tuple[str, ...], store: str | None, actor: str, as_json: bool) -> int:
    """Tag a state: the head of a branch, a commit or a time.

    REF is a branch, a commit id, another tag, BRANCH@COMMIT or BRANCH@TIME; the default is the head of main. A tag can
    be used wherever a commit id can. cleanup keeps the commit, even if its branch is deleted. Names follow the rules
    of branch names, and must differ from all of them.
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
@click.option("--yes", "assume_yes", is_flag=True, help="Do not ask before deleting a tag on a remote store.")
@json_option
def delete(name: str, uri: str | None, store: str | None, assume_yes: bool, as_json: bool) -> int:
    """Delete a tag; cleanup may then remove its commit."""
    target = resolve_graph_uri(uri, store)
    # Others may share a remote graph, and the tagged commit may be removed once the tag is.
    if not assume_yes:
        confirm_on_remote(
            target,
            action=f"deleting the tag `{name}` of {target}",
            question=f"Delete the tag `{name}` of {target}?",
            otherwise="nothing was deleted",
        )
    graph = open_selected_graph(uri, store)
    tag = graph.tags.delete(name)
    if as_json:
        print_json({"uri": graph.uri, "deleted": tag.to_json()})
    else:
        print_text(f"deleted tag {tag.name}, which was commit {tag.commit_id} of {tag.branch}\n")
    return 0


@click.command("list")
@click.argument("uri", required=False)
@graph_options
@json_option
def list_(uri: str | None, store: str | None, as_json: bool) -> int:
    """List the tags of a graph.

    Shows the commit of each tag, and the branch it was made on, which may have been deleted since.
    """
    graph = open_selected_graph(uri, store, read_only=True)
    tags = graph.tags.list()
    if as_json:
        print_json({"uri": graph.uri, "tags": [tag.to_json() for tag in tags]})
    else:
        rows = [(tag.name, tag.commit_id, tag.branch, tag.created_at, tag.created_by) for tag in tags]
        print_text(format_table(("tag", "commit", "branch", "at", "by"), rows) if rows else "no tags\n")
    return 0
