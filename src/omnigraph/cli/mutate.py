"""`omnigraph mutate`."""

import json
from typing import TYPE_CHECKING, NoReturn

import click

import omnigraph
from omnigraph.cli.options import chosen_graph, json_option, store_option
from omnigraph.cli.render import count_of, print_json, print_text
from omnigraph.cli.sources import STDIN, read_source
from omnigraph.lang.source import Source
from omnigraph.query.params import ParamText

if TYPE_CHECKING:
    from omnigraph.ops.mutate import MutationResult


@click.command("mutate")
@click.argument("words", nargs=-1, metavar="[NAME] [URI]")
@store_option
@click.option("--query", "path", metavar="FILE", help="The query file (.gq).")
@click.option("-e", "text", metavar="TEXT", help="The query itself, instead of a file.")
@click.option("--params", metavar="JSON", help="The parameters, as one JSON object.")
@click.option("--param", "pairs", multiple=True, metavar="NAME=VALUE", help="One parameter; may be repeated.")
@click.option("--if-commit", metavar="ID", help="Only if this commit is still the newest.")
@click.option("--as", "actor", default="anonymous", metavar="ACTOR", help="Who the commit is by.")
@click.option("--message", metavar="TEXT", help="A message to keep with the commit.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating a mutation with its key does nothing again.")
@json_option
def command(  # noqa: PLR0913 - one argument per option
    *,
    words: tuple[str, ...],
    store: str | None,
    path: str | None,
    text: str | None,
    params: str | None,
    pairs: tuple[str, ...],
    if_commit: str | None,
    actor: str,
    message: str | None,
    idempotency_key: str | None,
    as_json: bool,
) -> int:
    """Change a graph by a query, in one commit.

    NAME picks one query of the file and may be left out when there is only one. A single word is the URI, unless the
    graph is named by --store or its variable: then it is the NAME. `-` as the file is stdin. Without an effect there is
    no commit.
    """
    name, uri = _name_and_uri(words, store)
    if (path is None) == (text is None):
        _refuse("name the query with either --query FILE or -e TEXT")
    source = Source(text, "<-e>") if text is not None else read_source(path or STDIN)
    result = omnigraph.open_graph(chosen_graph(uri, store)).mutate(
        source,
        name=name,
        params=_params(params, pairs),
        actor=actor,
        message=message,
        idempotency_key=idempotency_key,
        if_commit=if_commit,
    )
    if as_json:
        print_json(result.to_json())
    else:
        print_text(_text(result))
    return 0


def _text(result: "MutationResult") -> str:
    counts = f"{count_of(result.affected_nodes, 'node')}, {count_of(result.affected_edges, 'edge')}"
    if result.commit_id is None:
        return f"{counts}: nothing to change\n"
    return f"{counts}\ncommit {result.commit_id}\n"


def _name_and_uri(words: tuple[str, ...], store: str | None) -> tuple[str | None, str | None]:
    if len(words) > 2:
        _refuse(f"expected at most NAME and URI, found {len(words)} words")
    if len(words) == 1:
        return (None, words[0]) if store is None else (words[0], None)
    return (words[0], words[1]) if words else (None, None)


def _params(text: str | None, pairs: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    if text is not None:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError) as error:
            _refuse(f"--params is not JSON: {error}")
        if not isinstance(given, dict):
            _refuse('--params is one JSON object, such as {"name": "Ada"}')
        found.update(given)
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            _refuse(f"--param takes NAME=VALUE, not `{pair}`")
        if name in found:
            _refuse(f"the parameter `{name}` is given twice")
        found[name] = ParamText(value)
    return found


def _refuse(message: str) -> NoReturn:
    raise click.UsageError(message, click.get_current_context())
