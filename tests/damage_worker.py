"""Processes that damage a graph and use it: one that dies or hangs is a verdict, and another takes its place."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 120.0
"""How long a verb may take before it counts as hanging: the slowest takes two on a busy machine."""


@dataclass(frozen=True, slots=True)
class Case:
    """One verb on one file that was damaged in one way."""

    place: str
    kind: str
    needed_by: str
    way: str
    seed: int
    verb: str
    verdict: str
    detail: str

    @property
    def group(self) -> str:
        """Return what is counted together."""
        return self.kind if self.needed_by == "nobody" else f"{self.kind} of {self.needed_by}"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.verb}, {self.group}, {self.way} {self.seed}: {self.place}: {self.detail}"


class DamageWorker:
    """Runs verbs on damaged copies of one graph, in a process of its own.

    Its settings are `verify`, as the options have it, and `small_bytes`: larger files count as large.
    """

    def __init__(self, pristine: Path, scratch: Path, settings: dict[str, object] | None = None) -> None:
        self.pristine, self.scratch, self.settings = pristine, scratch, settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._errors = scratch / "errors.txt"

    def run(self, place: str, way: str, seed: int, verbs: Sequence[str], bit: int | None = None) -> list[Case]:
        """Damage one file and run verbs; none where the way leaves that file as it was."""
        cases: list[Case] = []
        left = list(verbs)
        while left:
            process = self._living()
            request = {"place": place, "way": way, "seed": seed, "verbs": left, "bit": bit}
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            kind, needed_by = "", ""
            while left:
                line = self._line(process)
                if isinstance(line, str):
                    verdict = Case(place, kind, needed_by, way, seed, left.pop(0), line, self._tail())
                    cases.append(verdict)
                    break
                if "same" in line:
                    return cases
                kind, needed_by = line["kind"], line["needed_by"]
                if "verb" in line:
                    assert line["verb"] == left.pop(0)
                    cases.append(Case(place, kind, needed_by, way, seed, line["verb"], line["verdict"], line["detail"]))
        return cases

    def files(self) -> list[dict[str, str]]:
        """Return what files the graph has, as the process sees them."""
        process = self._living()
        assert process.stdin is not None
        process.stdin.write(b'{"files": true}\n')
        process.stdin.flush()
        line = self._line(process)
        assert not isinstance(line, str), self._tail()
        found: list[dict[str, str]] = line["files"]
        return found

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.wait(30)
            self._process.stdout.close()
            self._process = None

    def _living(self) -> "subprocess.Popen[bytes]":
        if self._process is not None:
            return self._process
        modules = os.pathsep.join([str(HERE), *filter(None, sys.path)])
        place = Path(tempfile.mkdtemp(dir=self.scratch))
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(self.pristine), str(place), json.dumps(self.settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONPATH": modules, "LANCE_LOG": "error", "RUST_BACKTRACE": "0"},
            )
        self._buffer = b""
        return self._process

    def _line(self, process: "subprocess.Popen[bytes]") -> dict[str, Any] | str:
        """Return the next line that the process says, or how it ended."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([descriptor], [], [], SECONDS)
            if not ready:
                process.kill()
                self._forget(process)
                return "hang"
            part = os.read(descriptor, 1 << 16)
            if not part:
                self._forget(process)
                return "abort"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found

    def _forget(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
        self._process = None

    def _tail(self) -> str:
        return self._errors.read_text("utf-8", "replace")[-600:]


def _serve(pristine: Path, scratch: Path, settings: dict[str, Any]) -> None:
    from dataclasses import replace
    from unittest.mock import patch

    from damage_files import list_files
    from damage_verbs import World, run_verb
    from omnigraph.options import Verify
    from omnigraph.storage import lance_table
    from omnigraph.storage.verification import SMALL_BYTES
    from rich_graph import OPTIONS

    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    base = scratch / "base"
    shutil.copytree(pristine, base)
    patch.object(lance_table, "SMALL_BYTES", settings.get("small_bytes", SMALL_BYTES)).start()
    options = replace(OPTIONS, verify=Verify(settings.get("verify", OPTIONS.verify.value)))
    world = World(base, scratch, list_files(base), options)
    files = {file.place: file for file in world.files}
    stats = _stats(base)

    def say(**line: object) -> None:
        os.write(out, json.dumps(line).encode() + b"\n")

    for text in sys.stdin:
        request = json.loads(text)
        if "files" in request:
            say(files=[asdict(file) for file in world.files])
            continue
        file = files[request["place"]]
        with _damage(world, file, request) as is_other:
            if not is_other:
                say(same=True)
                continue
            about = {"kind": file.kind, "needed_by": file.needed_by}
            say(**about)
            for verb in request["verbs"]:
                verdict = run_verb(verb, world, file)
                say(verb=verb, verdict=verdict.name, detail=verdict.detail, **about)
        for left in scratch.glob("copy*"):
            shutil.rmtree(left)
        assert _stats(base) == stats, "a verb has changed the graph, and not a copy of it"


def _stats(root: Path) -> dict[str, tuple[int, int, int]]:
    stats = {str(path): path.stat() for path in root.rglob("*") if path.is_file()}
    return {path: (one.st_ino, one.st_size, one.st_mtime_ns) for path, one in stats.items()}


@contextmanager
def _damage(world: Any, file: Any, request: dict[str, Any]) -> Iterator[bool]:
    """Put something else in the place of a file, with the time that it had, and the file back at the end."""
    from damage_ways import damaged, flip

    path = world.base / file.place
    if request["bit"] is None:
        data, is_other = damaged(world.base, file, request["way"], request["seed"], world.files)
    else:
        data, is_other = flip(path.read_bytes(), request["bit"]), True
    if not is_other:
        yield False
        return
    kept = world.scratch / "original"
    times = path.stat()
    path.rename(kept)
    world.original, world.way = (file.place, kept), request["way"]
    if data is not None:
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        yield True
    finally:
        world.original = None
        kept.replace(path)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
