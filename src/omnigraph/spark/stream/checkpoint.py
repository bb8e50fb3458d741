"""Bind a streaming checkpoint to one branch of a graph: the first start writes the owner, later ones check it.

A checkpoint records which rows were loaded, not where to. With the checkpoint of another graph, a stream would silently
skip all of these rows.
"""

import msgspec
from pyspark.sql import SparkSession

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.struct_decoder import get_decoder

OWNER_FILE = "omnigraph.json"


class CheckpointTakenError(OmnigraphError):
    """A checkpoint belongs to a stream into another graph or branch."""

    kind = Kind.USAGE
    code = "checkpoint_taken"
    checkpoint: str
    owner: str
    asked: str

    def __str__(self) -> str:
        return (
            f"`{self.checkpoint}` is the checkpoint of a stream into {self.owner}: with it, a stream into {self.asked}"
            " would miss every row that was loaded there. Name another checkpoint; or, if that graph was moved, remove"
            f" `{OWNER_FILE}` from this one"
        )


class _Owner(msgspec.Struct, frozen=True):
    """The branch that a stream loads into."""

    graph: str
    branch: str

    def __str__(self) -> str:
        return f"branch {self.branch} of {self.graph}"


def claim(spark: SparkSession, checkpoint: str, graph: str, branch: str) -> None:
    """Claim a checkpoint for streams into this branch, if it has no owner yet.

    Raises:
        CheckpointTakenError: It belongs to another branch or graph.
        SparkFailedError: It can't be read or written.
    """
    requested = _Owner(graph, branch)
    owner = _resolve_owner(spark, checkpoint, requested)
    if owner != requested:
        raise CheckpointTakenError(checkpoint, str(owner), str(requested))


def _resolve_owner(spark: SparkSession, checkpoint: str, requested: _Owner) -> _Owner:
    """Return the owner of a checkpoint; write and return `requested` if there is none."""
    context = spark.sparkContext
    with surface_errors():
        # Through Hadoop's file systems, as Spark writes the rest of the checkpoint: it may be anywhere.
        jvm = context._jvm  # noqa: SLF001 - there is no public way
        settings = context._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        assert jvm is not None  # noqa: S101 - a context that runs has one
        path = jvm.org.apache.hadoop.fs.Path(checkpoint, OWNER_FILE)
        files = path.getFileSystem(settings)
        owner = None
        if files.exists(path):
            source = files.open(path)
            owner = _decode_owner(bytes(source.readAllBytes()))
            source.close()
        if owner is None:
            out = files.create(path, True)
            out.write(bytearray(msgspec.json.encode(requested)))
            out.close()
        return owner or requested


def _decode_owner(text: bytes) -> _Owner | None:
    """Decode the owner of a checkpoint; return None if a driver died while writing it."""
    try:
        return get_decoder(_Owner).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
