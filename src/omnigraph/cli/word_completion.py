"""Values that a shell proposes for a word of the command line: files, and the names of a graph.

Imported only while a shell completes a word. Nothing here may fail or print: the user is typing.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from omnigraph.cli.error_hints import is_graph
from omnigraph.cli.input_files import read_source
from omnigraph.cli.options import is_graph_named, open_selected_graph
from omnigraph.graph.graph import Graph
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.ops.algorithm_call import ALGORITHMS
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import Catalog

Proposer = Callable[[click.Context, str], Iterable[str]]
Items = list[CompletionItem[str]]

# Bash takes `:` and `=` for the ends of words, and replaces only what follows them.
_WORD_BREAK = re.compile(r".*[:=]")
_BASH = """
%(complete_func)s() {
    local IFS=$'\\n' line files=
    COMPREPLY=()
    while read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            file,*|dir,*) files=1 ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    if [[ -n $files && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o bashdefault -o default
    elif [[ -n $files ]]; then
        compopt -o filenames
        while read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=.] ]]; then
        compopt -o nospace
    fi
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class BashWithFiles(BashComplete):
    """Completion by bash, which offers paths beside names, and knows words as Python splits them."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is typed, and this one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        return (words, "") if line[-1:].isspace() or not words else (words[:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> Items:
        """Return the proposals, without what bash counts as another word."""
        proposals = super().get_completions(args, incomplete)
        match = _WORD_BREAK.match(incomplete)
        start = "" if match is None else match[0]
        return [
            CompletionItem(item.value.removeprefix(start), item.type) if item.type == "plain" else item
            for item in proposals
        ]


def register() -> None:
    """Have click use the completion of this module for bash."""
    add_completion_class(BashWithFiles)


def add_completion(command: click.Command) -> None:
    """Complete the arguments and options of a command whose metavar or name says what it is."""
    for parameter in command.params:
        proposers = _find_proposers(command, parameter)
        if proposers is not None:
            complete = partial(_complete, proposers, parameter)
            parameter.shell_complete = complete  # type: ignore[method-assign]  # click has no other place for it


def _find_proposers(command: click.Command, parameter: click.Parameter) -> tuple[Proposer | None, ...] | None:
    """Return what proposes values of a parameter, None among them for files; None if nothing is known of it."""
    module = command.callback.__module__.rpartition(".")[2] if command.callback else ""
    by_command = _BY_COMMAND.get((module, command.name, parameter.name))
    metavar = parameter.metavar or (parameter.name or "").upper()
    return by_command or _BY_NAME.get(parameter.name) or _BY_METAVAR.get(metavar)


def _complete(
    proposers: tuple[Proposer | None, ...], parameter: click.Parameter, context: click.Context, incomplete: str
) -> Items:
    del parameter
    items: Items = []
    for propose in proposers:
        if propose is None:
            items.append(CompletionItem(incomplete, type="file"))
            continue
        try:
            with context.scope(cleanup=False):
                names = list(propose(context, incomplete))
        except Exception:  # noqa: BLE001, S112 - what can't be read has no names, and an error would garble the line
            continue
        items += [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return items


def _open_graph(context: click.Context) -> Graph:
    """Open the graph that the words before name, else that of the settings, else the only one of the directory."""
    uri, store = context.params.get("uri"), context.params.get("store")
    # Where the value of an option is typed, click leaves the other words unparsed.
    words = [word for word in (*(context.params.get("words") or ()), *context.args) if "://" in word or is_graph(word)]
    uri = uri or (words[-1] if words else None)
    if uri is None and not is_graph_named(store):
        graphs = [path.name for path in Path().iterdir() if is_graph(str(path))]
        uri = graphs[0] if len(graphs) == 1 else None
    return open_selected_graph(uri, store, read_only=True)


def _read_catalog(context: click.Context) -> Catalog:
    """Return the schema of the graph on the branch of the words before."""
    branch = context.params.get("branch") or "main"
    source = _open_graph(context).accepted_schema(branch=branch).source
    return load_schema(Source(source))


def _propose_branches(context: click.Context, _incomplete: str) -> Iterator[str]:
    yield from (branch.name for branch in _open_graph(context).branches.list())


def _propose_tags(context: click.Context, _incomplete: str) -> Iterator[str]:
    yield from (tag.name for tag in _open_graph(context).tags.list())


def _propose_types(context: click.Context, _incomplete: str) -> Iterator[str]:
    if len(context.params.get("words") or ()) < 2:
        yield from (type_.name for type_ in _read_catalog(context).types)


def _propose_properties(context: click.Context, _incomplete: str) -> Iterator[str]:
    type_ = _read_catalog(context).find_type(context.params["type_name"])
    yield from () if type_ is None else (prop.name for prop in type_.properties)


def _propose_type_properties(context: click.Context, _incomplete: str) -> Iterator[str]:
    for type_ in _read_catalog(context).types:
        yield from (f"{type_.name}.{prop.name}=" for prop in type_.properties)


def _propose_type_files(context: click.Context, incomplete: str) -> Iterator[str]:
    name, sign, start = incomplete.partition("=")
    if not sign:
        yield from (f"{type_.name}=" for type_ in _read_catalog(context).types)
        return
    directory, slash, _ = start.rpartition("/")
    for path in sorted(Path(f"{directory}{slash}" or ".").iterdir()):
        yield f"{name}={directory}{slash}{path.name}{'/' if path.is_dir() else ''}"


def _propose_queries(context: click.Context, _incomplete: str) -> Iterator[str]:
    path = context.params.get("path")
    if path is not None and not context.params.get("words"):
        yield from (query.name.text for query in parse_queries(read_source(path)).tree.queries)


def _propose_algorithms(_context: click.Context, _incomplete: str) -> Iterator[str]:
    yield from ALGORITHMS


_BY_METAVAR: dict[str, tuple[Proposer | None, ...]] = {
    **dict.fromkeys(("FILE", "FILE...", "[FILE]...", "PATH", "DIR", "[DIR]", "COPY", "URI", "fail|DIR"), (None,)),
    **dict.fromkeys(("[[ID=]URI]...", "[FILE]... [GRAPH]", "[URI] STATEMENT", "TARGET", "DIRECTORY"), (None,)),
    **dict.fromkeys(("TYPE=FILE", "TYPE=PATH"), (_propose_type_files,)),
    **dict.fromkeys(("STATE", "REF", "A", "B", "COMMIT"), (_propose_branches, _propose_tags)),
    "BRANCH": (_propose_branches,),
    "TYPE": (_propose_types,),
    "TYPE.PROPERTY=COLUMN": (_propose_type_properties,),
    "[NAME] [URI]": (_propose_queries, None),
    "[REF] [URI]": (_propose_branches, _propose_tags, None),
    "[URI] [TYPE [ID]]": (_propose_types, None),
}
_BY_COMMAND: dict[tuple[str, str | None, str | None], tuple[Proposer | None, ...]] = {
    ("algorithm", "algorithm", "name"): (_propose_algorithms,),
    # The name of a new branch or tag is the user's own.
    ("branch", "delete", "name"): (_propose_branches,),
    ("branch", "merge", "source"): (_propose_branches,),
    ("clone", "clone", "source"): (None,),
    ("tag", "delete", "name"): (_propose_tags,),
}
_BY_NAME: dict[str | None, tuple[Proposer | None, ...]] = {
    "branch": (_propose_branches,),
    "commit_id": (_propose_tags,),
    "property_name": (_propose_properties,),
}
