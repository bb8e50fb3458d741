"""The directory of the tour: its own, whatever else lies around."""

import shutil
from importlib import resources
from pathlib import Path

import pyarrow.parquet as pq

from omnigraph.demo.synthetic_data import SyntheticData
from omnigraph.errors import FileDeniedError, Kind, OmnigraphError

MARK = ".omnigraph-demo"
"""A file that says that a directory is the tour's, which may be emptied."""
GRAPH, DATA = "library.omni", "data"
TEXTS = ("schema.pg", "queries.gq")


class DemoPlaceTakenError(OmnigraphError):
    """The directory for the tour holds something that the tour did not put there."""

    kind = Kind.USAGE
    code = "demo_place_taken"

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.directory = directory

    def __str__(self) -> str:
        return f"`{self.directory}` is not empty, and not of an earlier tour: name another directory"


def prepare(directory: Path) -> None:
    """An empty directory with the schema and the queries of the tour; what an earlier tour left there goes.

    Raises:
        DemoPlaceTakenError: Something else is there.
        FileDeniedError: It can't be written.
    """
    try:
        _prepare(directory)
    except PermissionError as error:
        raise FileDeniedError(str(directory), "write") from error


def _prepare(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise DemoPlaceTakenError(str(directory))
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / MARK).exists() and any(directory.iterdir()):
        raise DemoPlaceTakenError(str(directory))
    (directory / MARK).touch()
    for name in (GRAPH, DATA):
        if (directory / name).exists():
            shutil.rmtree(directory / name)
    for name in TEXTS:
        (directory / name).write_text(resources.files(__package__).joinpath(name).read_text("utf-8"), encoding="utf-8")


def write_data(made: SyntheticData, directory: Path) -> dict[str, Path]:
    """The rows of each type as a Parquet file of several row groups, by the type's name; paths from the directory."""
    (directory / DATA).mkdir()
    paths = {}
    for name, table in made.build_tables().items():
        paths[name] = Path(DATA) / f"{name.lower()}.parquet"
        pq.write_table(table, directory / paths[name], row_group_size=max(1, -(-table.num_rows // 4)))
    return paths
