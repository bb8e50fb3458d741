"""Prepare the directory of the tour, and write its data."""

import shutil
from importlib import resources
from pathlib import Path

import pyarrow.parquet as pq

from omnigraph.demo.synthetic_data import SyntheticData
from omnigraph.errors import BadArgumentError, FileDeniedError

# A file that marks a directory as the tour's, so that it may be emptied.
MARK = ".omnigraph-demo"
GRAPH, DATA = "library.omni", "data"
TEXTS = ("schema.pg", "queries.gq")


def prepare(directory: Path) -> None:
    """Create an empty directory with the schema and queries of the tour; files of an earlier tour are removed.

    Raises:
        BadArgumentError: It holds other files.
        FileDeniedError: It can't be written.
    """
    try:
        _prepare(directory)
    except PermissionError as error:
        raise FileDeniedError(str(directory), "write") from error


def _prepare(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise BadArgumentError.demo_place_taken(str(directory))
    directory.mkdir(parents=True, exist_ok=True)
    if not (directory / MARK).exists() and any(directory.iterdir()):
        raise BadArgumentError.demo_place_taken(str(directory))
    (directory / MARK).touch()
    for name in (GRAPH, DATA):
        if (directory / name).exists():
            shutil.rmtree(directory / name)
    for name in TEXTS:
        (directory / name).write_text(resources.files(__package__).joinpath(name).read_text("utf-8"), encoding="utf-8")


def write_data(data: SyntheticData, directory: Path) -> dict[str, Path]:
    """Write the rows of each type as a Parquet file of several row groups; return the relative paths by type."""
    (directory / DATA).mkdir()
    paths = {}
    for name, table in data.build_tables().items():
        paths[name] = Path(DATA) / f"{name.lower()}.parquet"
        pq.write_table(table, directory / paths[name], row_group_size=max(1, -(-table.num_rows // 4)))
    return paths
