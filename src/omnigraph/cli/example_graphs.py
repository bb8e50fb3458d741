"""`omnigraph examples`: the example graphs that come with the package."""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import NoReturn

import click

import omnigraph
from omnigraph.cli.input_files import build_file_error
from omnigraph.cli.options import json_option, refuse
from omnigraph.cli.render import format_count, format_table, print_json, print_text
from omnigraph.lang.spelling import find_closest
from omnigraph.locations import resolve_local_path

_DIRECTORY = "examples"

# A test compares the names with the directories.
DESCRIPTIONS: Mapping[str, str] = {
    "agent-memory": "what an agent remembers: facts, sources, conversations",
    "agents": "a policy for agents that propose changes on branches",
    "from-neo4j": "an export of Neo4j",
    "integrations": "retrievers for LangChain and LlamaIndex, a notebook",
    "older-export": "an export of the older system",
    "people": "people, where they work, and whom they know: the graph of the tutorials",
    "public-data": "extracts of Debian's packages, Open English WordNet, Neo4j exports, GraphML",
    "research-library": "papers in tables of several formats, with hybrid search",
    "server": "settings, a policy and stored queries of a server",
    "supply-chain": "parts and suppliers: paths of any depth, and what depends on what",
}


@click.command("examples")
@click.argument("name", required=False, metavar="[NAME]")
@click.argument("directory", required=False, metavar="[DIR]")
@json_option
def examples(*, name: str | None, directory: str | None, as_json: bool) -> int:
    """List the examples that come with the package, or copy one.

    The files of NAME are copied into DIR, by default ./examples/NAME, as the documentation names them. Files that are
    there already are not replaced: if there is one, nothing is copied.
    """
    if name is None:
        if as_json:
            print_json({"examples": [{"name": known, "description": text} for known, text in DESCRIPTIONS.items()]})
        else:
            print_text(format_table(("example", "shows"), list(DESCRIPTIONS.items())))
        return 0
    if name not in DESCRIPTIONS:
        _refuse_name(name)
    target = directory if directory is not None else f"{_DIRECTORY}/{name}"
    files = _read_files(_find_directory() / name)
    _write_files(files, resolve_local_path(target), target)
    if as_json:
        print_json({"name": name, "directory": target, "files": [str(path) for path in files]})
    else:
        print_text("".join(f"{PurePath(target, path)}\n" for path in files))
        print_text(f"copied {format_count(len(files), 'file')}\n")
    return 0


def _refuse_name(name: str) -> NoReturn:
    near = find_closest(name, DESCRIPTIONS)
    refuse(f"there is no example `{name}`; {f'did you mean `{near}`?' if near else '`omnigraph examples` lists them'}")


def _find_directory() -> Path:
    """Return the directory of the examples: in the package, or beside its sources if it was installed from those."""
    package = Path(omnigraph.__file__).parent
    installed = package / _DIRECTORY
    return installed if installed.is_dir() else package.parents[1] / _DIRECTORY


def _read_files(directory: Path) -> dict[PurePath, bytes]:
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {PurePath(path.relative_to(directory)): path.read_bytes() for path in paths}


def _write_files(files: Mapping[PurePath, bytes], directory: Path, name: str) -> None:
    """Write files into a directory, none of which may be there."""
    existing = [path for path in files if (directory / path).exists()]
    if existing:
        refuse(f"`{PurePath(name, existing[0])}` is there already, and nothing was copied; name another directory")
    for path, data in files.items():
        try:
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            # "x" fails for a file that appeared in between.
            with (directory / path).open("xb") as file:
                file.write(data)
        except OSError as error:
            raise build_file_error(str(PurePath(name, path)), "write", error) from error
