"""Headers of Neo4j in files of their own: `actors-header.csv` names the columns of `actors.csv` and `actors-2.csv`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.engine.decoding.input_files import COMPRESSED, FileDamagedError
from omnigraph.engine.importing.neo4j_csv import is_neo4j_header
from omnigraph.engine.importing.source_tables import CsvDialect, SourceTable, open_tables

_MARK = "header"
_SIGNS = "-_. "


@dataclass(frozen=True, slots=True)
class HeaderFiles:
    """The files that hold a header and nothing else."""

    tables: dict[Path, SourceTable]

    @staticmethod
    def find(paths: Sequence[Path], find_dialect: Callable[[Path], CsvDialect]) -> "HeaderFiles":
        """Return those of some CSV files whose name ends in `header`, and that have a header of Neo4j but no row.

        Raises:
            FileMissingError, FileDeniedError, FileDamagedError: One of these names can't be read.
        """
        tables = {}
        for path in paths:
            if _find_stem(path).endswith(_MARK):
                table = open_tables(path, find_dialect(path), ".csv")[0]
                if is_neo4j_header(table.columns) and next(table.read(), None) is None:
                    tables[path] = table
        return HeaderFiles(tables)

    def open_part(self, path: Path) -> tuple[SourceTable, Path] | None:
        """Return a file without a header, with the columns of the one that it belongs to, and which one that is.

        None if no header's name fits, or the file has a header of its own.

        Raises:
            FileMissingError, FileDeniedError, FileDamagedError: The file can't be read, or has other columns.
        """
        place = self._find_header(path)
        if place is None:
            return None
        header = self.tables[place]
        table = open_tables(path, replace(header.dialect, has_header=False), ".csv")[0]
        line, cells = next(table.read())
        if is_neo4j_header([cell.text for cell in cells]):
            return None
        if len(cells) != len(header.columns):
            reason = f"line {line} has {len(cells)} cells, and its header, `{place.name}`, has {len(header.columns)}"
            raise FileDamagedError(str(path), reason)
        return replace(table, columns=header.columns), place

    def _find_header(self, path: Path) -> Path | None:
        """Return the header with the longest name that a file's name begins with, in the same directory."""
        stem = _find_stem(path)
        fitting = [
            (len(beginning), header)
            for header in self.tables
            for beginning in (_find_beginning(header),)
            if header.parent == path.parent and header != path and stem.startswith(beginning)
        ]
        return max(fitting)[1] if fitting else None

    def check_used(self, used: set[Path]) -> None:
        """Raise if no file belongs to one of the headers.

        Raises:
            FileDamagedError: It is the header of nothing.
        """
        for path in self.tables:
            if path not in used:
                example = "-".join(filter(None, (_find_beginning(path), "part1.csv")))
                reason = (
                    "it is only a header, and no file given with it has none"
                    f" and a name that begins alike, such as `{example}`"
                )
                raise FileDamagedError(str(path), reason)


def _find_stem(path: Path) -> str:
    name = path.name.lower()
    for ending in COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).stem


def _find_beginning(header: Path) -> str:
    """Return what the names of a header's files begin with: `actors` for `actors-header.csv`."""
    return _find_stem(header).removesuffix(_MARK).rstrip(_SIGNS)
