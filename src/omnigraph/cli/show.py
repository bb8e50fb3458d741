"""`omnigraph show`: look at a graph, at a type, or at one node or edge."""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import click

from omnigraph.cli.lazy_groups import load_member
from omnigraph.cli.options import (
    at_option,
    branch_option,
    graph_options,
    is_graph_word,
    is_wide,
    json_option,
    measure_table,
    open_selected_graph,
    refuse,
    refuse_two_states,
    snapshot_option,
    wide_option,
)
from omnigraph.cli.render import format_count, format_facts, format_table, print_json, print_text
from omnigraph.cli.row_changes import shorten_text

Document: TypeAlias = dict[str, Any]

_MAX_WORDS = 3
_FACTS = {"graph": "uri", "branch": "branch", "commit": "commit_id", "at": "at"}


@click.command("show")
@click.argument("words", nargs=-1, metavar="[URI] [TYPE [ID]]")
@graph_options
@branch_option
@snapshot_option
@at_option
@wide_option
@json_option
def command(
    *,
    words: tuple[str, ...],
    store: str | None,
    branch: str,
    commit_id: str | None,
    at: datetime | None,
    as_json: bool,
) -> int:
    """Show the types of a graph, the first rows of a type, or one node or edge.

    Without TYPE, lists the types with their numbers of rows. With TYPE, shows its properties and first rows. With ID,
    shows a node with its properties, and how many edges of each type it has, or an edge with its ends. Shows the
    newest state, unless a commit or a time is given. Vectors and blobs are named, but not printed. With --store,
    --server or OMNIGRAPH_STORE, one or two words are TYPE and ID.
    """
    uri, type_name, row_id = _split_words(words, store)
    refuse_two_states(commit_id, at)
    graph = open_selected_graph(uri, store, read_only=True)
    # `--help` needs none of the engine.
    read_document = load_member("omnigraph.cli.show_reads:read_document")
    document: Document = read_document(graph, (branch, commit_id, at), type_name, row_id)
    if as_json:
        print_json(document)
    elif "types" in document:
        print_text(_format_graph(document))
    else:
        print_text(_format_row(document) if row_id is not None else _format_type(document))
    return 0


def _split_words(words: Sequence[str], store: str | None) -> tuple[str | None, str | None, str | None]:
    """Split the words of the call into the graph, the type and the id.

    The graph comes first, unless an option or a variable names it.
    """
    if len(words) > _MAX_WORDS:
        refuse(f"expected at most URI, TYPE and ID, found {len(words)} words")
    padded: list[str | None] = [*words, None, None, None]
    if words and len(words) < _MAX_WORDS and not is_graph_word(words[0], store):
        padded = [None, *padded]
    return padded[0], padded[1], padded[2]


def _format_graph(document: Document) -> str:
    facts = format_facts({name: document[key] for name, key in _FACTS.items()})
    types = document["types"]
    if not types:
        return f"{facts}\nthe schema has no types\n"
    rows = [
        (
            type_["type"],
            _format_kind(type_),
            f"{type_['rows']:,}",
            ", ".join(type_["key"]),
            type_["description"] or "",
        )
        for type_ in types
    ]
    return f"{facts}\n{_format_used(('type', 'is', 'rows', 'key', 'description'), rows, right=('rows',))}"


def _format_type(document: Document) -> str:
    head = f"{document['type']}: {_format_kind(document)}, {format_count(document['rows'], 'row')}\n"
    if document["description"]:
        head += f"{document['description']}\n"
    properties = [
        (
            prop["name"],
            prop["type"],
            ", ".join(word for word in ("key", "unique", "indexed") if prop[word]),
            prop["description"] or "",
        )
        for prop in document["properties"]
    ]
    text = f"{head}\n"
    if properties:
        text += _format_used(("property", "type", "is", "description"), properties) + "\n"
    rows = document["first"]
    if not rows:
        return f"{text}no rows\n"
    columns = list(rows[0])
    shorten = str if is_wide() else shorten_text
    cells = [[shorten(_format_value(row[name])) for name in columns] for row in rows]
    text += format_table(columns, cells, max_width=measure_table())
    if len(rows) < document["rows"]:
        text += f"\nthe first {len(rows)} of {document['rows']:,} rows\n"
    return text


def _format_row(document: Document) -> str:
    text = f"{document['type']} {document['id']}: {_format_kind(document)}\n\n"
    ends: dict[str, str | None] = {end: document[end] for end in ("from", "to") if end in document}
    values: dict[str, str | None] = {name: _format_value(value) for name, value in document["properties"].items()}
    # A property may be called like an end, so the two are formatted apart.
    text += format_facts(ends) + format_facts(values)
    if document["not_shown"]:
        text += f"not shown: {', '.join(document['not_shown'])}\n"
    if "edges" not in document:
        return text
    rows = [
        (
            edge["edge"],
            edge["direction"],
            edge["type"],
            f"{edge['count']:,}",
            ", ".join(edge["first"]) + (", …" if edge["has_more"] else ""),
        )
        for edge in document["edges"]
    ]
    if not rows:
        return f"{text}\nno edge type begins or ends at a {document['type']}\n"
    return f"{text}\n{format_table(('edge', 'direction', 'node', 'edges', 'first'), rows, right=('edges',))}"


def _format_used(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[str] = ()) -> str:
    """Format a table without the columns in which no row has a text."""
    used = [number for number in range(len(headers)) if any(row[number] for row in rows)]
    return format_table([headers[n] for n in used], [[row[n] for n in used] for row in rows], right=right)


def _format_kind(document: Document) -> str:
    return "node" if document["kind"] == "node" else f"edge {document['source']} -> {document['target']}"


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
