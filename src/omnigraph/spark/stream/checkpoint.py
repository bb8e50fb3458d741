"""Whom the checkpoint of a stream belongs to: written into it by its first start, and asked by every other.

A checkpoint says which rows were loaded, not where to. With that of another graph a stream would miss them all, and
nobody would notice.
"""

import msgspec
from pyspark.sql import SparkSession

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.spark.session.error_translation import surface_errors

OWNER_FILE = "omnigraph.json"


class CheckpointTakenError(OmnigraphError):
    """A checkpoint is that of a stream into another graph, or into another branch."""

    kind = Kind.USAGE
    code = "checkpoint_taken"

    def __init__(self, checkpoint: str, owner: str, asked: str) -> None:
        super().__init__(checkpoint, owner, asked)
        self.checkpoint, self.owner, self.asked = checkpoint, owner, asked

    def __str__(self) -> str:
        return (
            f"`{self.checkpoint}` is the checkpoint of a stream into {self.owner}: with it, a stream into {self.asked}"
            f" would miss every row that went there. Name another one; or, if that graph was moved, remove `{OWNER_FILE}`"
            " from it"
        )


class _Owner(msgspec.Struct, frozen=True):
    """The branch that a stream loads into."""

    graph: str
    branch: str

    def __str__(self) -> str:
        return f"branch {self.branch} of {self.graph}"


def claim(spark: SparkSession, checkpoint: str, graph: str, branch: str) -> None:
    """Make a checkpoint that of a stream into this branch, if it is nobody's yet.

    Raises:
        CheckpointTakenError: It belongs to another one.
        SparkFailedError: It can't be read or written.
    """
    asked = _Owner(graph, branch)
    owner = _resolve_owner(spark, checkpoint, asked)
    if owner != asked:
        raise CheckpointTakenError(checkpoint, str(owner), str(asked))


def _resolve_owner(spark: SparkSession, checkpoint: str, asked: _Owner) -> _Owner:
    """Who is written there; `asked` is written, where nobody is. By Spark's own file systems, as all else in there."""
    context = spark.sparkContext
    with surface_errors():
        jvm, settings = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 - there is no public way
        assert jvm is not None  # noqa: S101 - a context that runs has one
        path = jvm.org.apache.hadoop.fs.Path(checkpoint, OWNER_FILE)
        files = path.getFileSystem(settings)
        found = None
        if files.exists(path):
            source = files.open(path)
            found = _decode_owner(bytes(source.readAllBytes()))
            source.close()
        if found is None:
            out = files.create(path, True)
            out.write(bytearray(msgspec.json.encode(asked)))
            out.close()
        return found or asked


def _decode_owner(text: bytes) -> _Owner | None:
    """None: a driver died while it wrote that."""
    try:
        return msgspec.json.decode(text, type=_Owner)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
