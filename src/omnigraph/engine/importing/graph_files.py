"""Open any files as tables: each by itself, or, where they are graphs, by what is in all of them together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from omnigraph.engine.decoding.input_files import open_input, translate_file_errors
from omnigraph.engine.importing.graph_spool import GraphEdge, GraphNode, GraphTables
from omnigraph.engine.importing.graphml import read_graphml
from omnigraph.engine.importing.json_graphs import is_apoc_json, is_node_link, read_apoc_json, read_node_link
from omnigraph.engine.importing.neo4j_csv import is_neo4j_header, read_neo4j_csv
from omnigraph.engine.importing.neo4j_header_files import HeaderFiles
from omnigraph.engine.importing.source_tables import (
    CSV_ENDINGS,
    FORMATS,
    GRAPHML_ENDINGS,
    JSON_ENDINGS,
    LINE_ENDINGS,
    CsvDialect,
    SourceTable,
    find_table_ending,
    open_tables,
)

_NEO4J, _NODE_LINK, _APOC = (FORMATS[name] for name in ("neo4j-csv", "node-link", "apoc-json"))
_READERS: Mapping[str, Callable[[Path], Iterator[GraphNode | GraphEdge]]] = {
    **dict.fromkeys(GRAPHML_ENDINGS, read_graphml),
    _NODE_LINK: read_node_link,
    _APOC: read_apoc_json,
}
# A file tells its format within so many bytes.
_HEAD_BYTES = 1 << 20


def open_sources(
    paths: Sequence[Path],
    find_dialect: Callable[[Path], CsvDialect],
    format_: str | None,
    names: Mapping[Path, str],
) -> dict[Path, list[SourceTable]]:
    """Return the tables of each file. `names` are the labels or types of graph files that don't say them.

    Raises:
        FileFormatError: The format is not known.
        FileMissingError, FileDeniedError, FileDamagedError: A file can't be read.
    """
    opened: dict[Path, list[SourceTable]] = {}
    # Ids of Neo4j's files lead from one to another; other graphs are files of their own.
    joint = GraphTables("line")
    is_joint = False
    kinds = {path: _find_format(path, format_) for path in paths}
    headers = HeaderFiles.find([path for path in kinds if kinds[path] in (*CSV_ENDINGS, _NEO4J)], find_dialect)
    used: set[Path] = set()
    for path, kind in kinds.items():
        if path in headers.tables:
            opened[path] = []
            continue
        if kind in _READERS:
            tables = GraphTables("element" if kind == _NODE_LINK else "line")
            tables.add(path, _READERS[kind](path))
            opened[path] = tables.build()
            continue
        part = headers.open_part(path) if kind in (*CSV_ENDINGS, _NEO4J) else None
        if part is not None:
            used.add(part[1])
            joint.add(path, read_neo4j_csv(part[0], names.get(path) or names.get(part[1])))
            opened[path] = []
            is_joint = True
            continue
        opened[path] = open_tables(path, find_dialect(path), ".csv" if kind == _NEO4J else kind)
        if kind == _NEO4J or (kind in CSV_ENDINGS and is_neo4j_header(opened[path][0].columns)):
            joint.add(path, read_neo4j_csv(opened[path][0], names.get(path)))
            opened[path] = []
            is_joint = True
    headers.check_used(used)
    if is_joint:
        for table in joint.build():
            opened[table.path].append(table)
    return opened


def _find_format(path: Path, format_: str | None) -> str:
    """Return the format of a file: as given, or by its name and, for JSON, by how it begins."""
    kind = format_ or find_table_ending(path)
    if format_ is not None or kind not in (*JSON_ENDINGS, *LINE_ENDINGS):
        return kind
    with translate_file_errors(str(path)), open_input(path) as file:
        head = file.read(_HEAD_BYTES)
    if is_apoc_json(head):
        return _APOC
    return _NODE_LINK if kind in JSON_ENDINGS and is_node_link(path, head) else kind
