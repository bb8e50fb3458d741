"""`omnigraph tag create`."""

import click

from omnigraph.cli.options import graph_options, json_option, open_selected_graph, split_name_and_uri
from omnigraph.cli.render import print_json, print_text


@click.command("create")
@click.argument("name")
@click.argument("words", nargs=-1, metavar="[REF] [URI]")
@graph_options
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the tag is by.")
@json_option
def command(*, name: str, words: tuple[str, ...], store: str | None, actor: str, as_json: bool) -> int:
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
