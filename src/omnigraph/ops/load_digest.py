"""Compute the digest of a load request, to detect whether an idempotency key is reused for another load.

It covers the mode, the options, the types and columns, and the content: the bytes of files and streams, the rows of
Arrow data as IPC. Streams can be read only once, so they are hashed while the load reads them; a repeated load, which
reads nothing else, reads them to the end.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import BinaryIO, cast

import msgspec
import pyarrow as pa

from omnigraph.engine.bulk.load_batch import OnDuplicate
from omnigraph.engine.decoding.input_files import translate_file_errors
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.typed_files import ArrowStream
from omnigraph.errors import BadArgumentError
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import GraphSource, LoadInput, PathLike, find_files
from omnigraph.storage.s3_input_files import InputFile, RemoteFile

# Files up to this size are hashed, at about a second per gigabyte. Larger ones are identified by size and time.
MAX_WHOLE_FILE_BYTES = 1 << 30
_DIGEST_BYTES = 16


class RequestDigest:
    """The digest of a load. Load `self.call`, whose streams are hashed as they are read, then call `get_or_compute`."""

    def __init__(self, call: LoadCall, storage: dict[str, str]) -> None:
        self._storage = storage
        self._value: str | None = None
        # Hashing costs time: only a load that may be repeated, and is compared by content, needs it.
        self._is_needed = call.idempotency_key is not None and not call.is_known_by_key and not call.is_dry_run
        self.call = call if not self._is_needed else replace(call, input=_hash_streams(call))

    def get_or_compute(self) -> str | None:
        """Return the digest, reading the rest of the input if needed; None if the load has no key to compare."""
        if self._is_needed and self._value is None:
            self._value = self._compute()
        return self._value

    def _compute(self) -> str:
        call = self.call
        graph = [self._digest_content(source.data) for source in call.input.graph]
        typed = []
        for number, source in enumerate(call.input.typed):
            content = call.digests.get(number) or self._digest_content(source.data)
            typed.append([source.type, source.is_edge, dict(source.columns), content])
        options: list[object] = [call.mode.value, call.only_known, call.on_error is not None, call.max_errors]
        # Only if it is not the usual: digests of earlier releases stay as they are.
        if call.on_duplicate is not OnDuplicate.ERROR:
            options.append(call.on_duplicate.value)
        return _hash(msgspec.json.encode([options, graph, typed], order="deterministic"))

    def _digest_content(self, data: object) -> list[str]:
        """Return the digests of a source, one for each file."""
        if isinstance(data, _HashedChunks | _HashedRows):
            return [data.finalize()]
        paths = data if isinstance(data, tuple) else (data,)
        files = (each for path in paths for each in find_files(cast("PathLike", path), self._storage))
        return [_digest_file(file) + _describe_partition(partition) for file, partition in files]


def _hash_streams(call: LoadCall) -> LoadInput:
    """Return the input with streams that are hashed as they are read, except those with a digest in the call.

    Raises:
        BadArgumentError: Rows of one type come from a pipe.
    """
    graph = [_hash_graph_source(source) for source in call.input.graph]
    # Decoders open typed files by path, so the bytes of a pipe can't be hashed on their way.
    for source in call.input.typed:
        for path in source.data if isinstance(source.data, tuple) else (source.data,):
            if _is_read_once(path):
                expected = "give a file, or no idempotency key: what can be read only once can't be compared later"
                raise BadArgumentError("a load with a key", f"from `{path}`", expected)
    typed = [
        replace(source, data=_HashedRows(source.data))
        if isinstance(source.data, ArrowStream) and number not in call.digests
        else source
        for number, source in enumerate(call.input.typed)
    ]
    return LoadInput(graph=tuple(graph), typed=tuple(typed))


def _hash_graph_source(source: GraphSource) -> GraphSource:
    """Return a source that is hashed as it is read, unless it is a file that can be read twice."""
    if not isinstance(source.data, str | os.PathLike):
        return replace(source, data=_HashedChunks(source.data))
    if _is_read_once(source.data):
        return GraphSource(data=_HashedChunks(_read_file(source.data)), name=str(source.data))
    return source


def _is_read_once(path: object) -> bool:
    """Return whether a path is a pipe or a device, which can be read only once."""
    return isinstance(path, str | os.PathLike) and (Path(path).is_fifo() or Path(path).is_char_device())


def _read_file(path: PathLike) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        yield from iter_chunks(file)


class _HashedChunks:
    """An iterator of byte chunks that hashes them as they are read."""

    def __init__(self, data: BinaryIO | Iterable[bytes]) -> None:
        self._chunks = iter(iter_chunks(data))
        self._hash = blake2b(digest_size=_DIGEST_BYTES)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            yield chunk

    def finalize(self) -> str:
        """Read the rest, and return the digest of all bytes."""
        for _ in self:
            pass
        return self._hash.hexdigest()


class _HashedRows:
    """An Arrow stream that hashes its rows as they are read."""

    def __init__(self, data: ArrowStream) -> None:
        self._data = data
        self._digest: str | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream by Arrow's PyCapsule protocol."""
        reader = pa.RecordBatchReader.from_stream(self._data)
        hashing = pa.RecordBatchReader.from_batches(reader.schema, self._read(reader))
        return hashing.__arrow_c_stream__(requested_schema)

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        sink = _HashSink()
        # The IPC form is hashed and discarded; the batches themselves go to the load.
        with pa.ipc.new_stream(pa.PythonFile(sink, "w"), reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                yield batch
        self._digest = sink.hash.hexdigest()

    def finalize(self) -> str:
        """Read all rows, unless the load has, and return the digest."""
        if self._digest is None:
            for _ in pa.RecordBatchReader.from_stream(self):
                pass
        assert self._digest is not None  # noqa: S101 - `_read` has set it after the last batch
        return self._digest


class _HashSink:
    """A file object that only hashes what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.hash = blake2b(digest_size=_DIGEST_BYTES)

    def write(self, data: bytes) -> int:
        """Hash bytes, and return their number."""
        self.hash.update(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self) -> None:
        """Do nothing: the hash is still needed."""


def _describe_partition(partition: Mapping[str, str | None]) -> str:
    """Return the values of a file's directories as text; none if there are none."""
    return "" if not partition else f" {msgspec.json.encode(partition, order='deterministic').decode()}"


def _digest_file(file: InputFile) -> str:
    """Return the digest of a file: of an object its tag, of a file its bytes, of a large file its size and time.

    A path that is no longer a regular file, as it was when the load began, has its own digest: it has changed.
    """
    if isinstance(file, RemoteFile):
        return f"{file.size} {file.etag}"
    with translate_file_errors(str(file)):
        info = file.stat()
        if not stat.S_ISREG(info.st_mode):
            return "no regular file"
        if info.st_size > MAX_WHOLE_FILE_BYTES:
            return f"{info.st_size} {info.st_mtime_ns}"
        with Path(file).open("rb") as stream:
            return file_digest(stream, lambda: blake2b(digest_size=_DIGEST_BYTES)).hexdigest()


def _hash(data: bytes) -> str:
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
