"""Four doors to graphs that have the same past: Python and the command line, each here and through a server."""

import io
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import omnigraph as og
from door_calls import FILES, PEOPLE, SCHEMA, Call
from omnigraph.cli.exit_codes import EXIT_CODES, _encode_error
from omnigraph.cli.main import main
from omnigraph.config.server import HostedGraph, ServerConfig, ServerLimits
from omnigraph.errors import OmnigraphError
from omnigraph.server.draining_server import DrainingServer
from omnigraph.server.service import Service
from serving import TOKENS, write_settings
from worlds import runtime

DOORS = ("Python", "Python through a server", "command line", "command line through a server")
SERVED = (DOORS[1], DOORS[3])
_ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_SIZE = re.compile(r"\b[\d.,]+ (?:bytes|B|[kKMG]i?B)\b")
_NUMBER = re.compile(r"\b\d{15,20}\b")
_DIGEST = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])")


@dataclass(frozen=True)
class Outcome:
    """What came of a call, in words that don't depend on the graph: exit code, answer, error."""

    code: int
    answer: Any = None
    error: Any = None


@dataclass
class Mask:
    """Replaces what two graphs of the same past don't share: ids, times, versions, sizes, places."""

    places: Mapping[str, str]
    """Texts to replace, in order, such as the directory of a test."""
    known: dict[str, str] = field(default_factory=dict)
    """Ids in the order in which they were met."""
    dropped: frozenset[str] = frozenset()
    """Fields of documents to leave out."""

    def plain(self, value: Any) -> Any:
        """Return a document, a text or its lines, masked."""
        match value:
            case bytes():
                return [self.plain(line) for line in value.decode().splitlines()]
            case str():
                for place, name in self.places.items():
                    value = value.replace(place, name)
                value = _ULID.sub(lambda found: self.known.setdefault(found[0], f"id {len(self.known)}"), value)
                value = _DIGEST.sub("DIGEST", value)
                value = _SIZE.sub("SIZE", _NUMBER.sub("VERSION", _TIME.sub("TIME", value)))
                return re.sub(" {2,}", "  ", value)
            case dict():
                return {name: self.plain(_size(name, one)) for name, one in value.items() if name not in self.dropped}
            case list() | tuple():
                return [self.plain(one) for one in value]
            case _:
                return value


@dataclass
class Door:
    """One way to one graph."""

    name: str
    home: Path
    graph: og.Graph
    """The graph itself, whichever the way to it."""
    way: Any
    """What Python calls are made of, or the words that name the graph on a command line."""
    known: dict[str, str] = field(default_factory=dict)
    """Ids in the order in which they were met."""

    @property
    def first(self) -> str:
        """The first commit of main."""
        return self._commits[-1]

    @property
    def second(self) -> str:
        """The one behind it."""
        return self._commits[-2]

    @property
    def last(self) -> str:
        """The newest commit of main."""
        return self._commits[0]

    @property
    def _commits(self) -> list[str]:
        return [one.id for one in self.graph.commits()]

    @property
    def is_command(self) -> bool:
        """Whether it is a command line."""
        return isinstance(self.way, list)

    def call(self, call: Call) -> Outcome:
        """Make a call."""
        return self._told(self._run(call, as_json=call.as_json) if self.is_command else self._python(call))

    def text(self, call: Call) -> Outcome:
        """What a person sees of it."""
        return self._told(self._run(call, as_json=False))

    def _python(self, call: Call) -> Outcome:
        try:
            return Outcome(call.exit, call.python(self.way, self))
        except OmnigraphError as error:
            return Outcome(EXIT_CODES[error.kind], error=_encode_error(error, error.kind))

    def _run(self, call: Call, *, as_json: bool) -> Outcome:
        words = [self._named(word) for word in call.words]
        words += ["--json"] if as_json else []
        words += ["--as", "admin"] if call.signs and self.name not in SERVED else []
        code, out, err = run([*words, *self.way])
        answer: Any = out if not as_json else json.loads(out) if out else None
        error: Any = json.loads(err)["error"] if as_json and err else err.decode() or None
        return Outcome(code, answer, error)

    def _named(self, word: str) -> str:
        return getattr(self, word[1:]) if word in ("@first", "@second", "@last") else word

    def _told(self, outcome: Outcome) -> Outcome:
        return Outcome(outcome.code, self._plain(outcome.answer), self._plain(outcome.error))

    def _plain(self, value: Any) -> Any:
        mask = Mask({self._place: "PLACE", str(self.home): "HOME"}, self.known, frozenset({"uri"}))
        return mask.plain(value)

    @property
    def _place(self) -> str:
        if self.name not in SERVED:
            return self.graph.uri
        return f"{self.way[1]}/graphs/{self.way[3]}" if self.is_command else str(self.way.uri)


def _size(name: str, value: Any) -> Any:
    """Files are compressed, and ids are not equally long then: their sizes differ a little."""
    return bool(value) if name in ("bytes", "bytes_removed") else value


def run(words: list[str]) -> tuple[int, bytes, bytes]:
    """A command in this process: its exit code, and what it wrote."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
        sys.stdout.flush()
    return code, out.buffer.getvalue(), err.buffer.getvalue()


def laid_out(home: Path) -> og.Graph:
    """A graph of three people, and the files that calls are about."""
    home.mkdir(parents=True)
    for name, text in FILES.items():
        (home / name).write_text(text, encoding="utf-8")
    (home / "people.jsonl").write_text(PEOPLE, encoding="utf-8")
    graph = og.create_graph(str(home / "people.omni"), SCHEMA, runtime=runtime(), actor="admin")
    graph.load(home / "people.jsonl", mode="append", actor="admin")
    return graph


@contextmanager
def opened(home: Path) -> Iterator[list[Door]]:
    """The four doors. Both that lead to a server lead to one of their own graphs on the same one."""
    graphs = {name: laid_out(home / f"door {number}") for number, name in enumerate(DOORS)}
    homes = {name: home / f"door {number}" for number, name in enumerate(DOORS)}
    with (
        served(home, {"people": graphs[SERVED[0]], "others": graphs[SERVED[1]]}) as url,
        og.connect(url, TOKENS["admin"], graph="people") as remote,
    ):
        ways: dict[str, Any] = {
            DOORS[0]: graphs[DOORS[0]].acting_as("admin"),
            DOORS[1]: remote,
            DOORS[2]: ["--store", graphs[DOORS[2]].uri],
            DOORS[3]: ["--server", url, "--graph", "others"],
        }
        yield [Door(name=name, home=homes[name], graph=graphs[name], way=ways[name]) for name in DOORS]


@contextmanager
def served(home: Path, graphs: dict[str, og.Graph], limits: ServerLimits | None = None) -> Iterator[str]:
    """A server on loopback, in a thread of this process: its address."""
    write_settings(home)
    config = ServerConfig(
        graphs=tuple(HostedGraph(id=name, uri=graph.uri) for name, graph in graphs.items()),
        tokens_file=home / "tokens.toml",
        policies=home / "policies",
        limits=limits or ServerLimits(threads=4),
    )
    server = DrainingServer(Service.start(config, runtime()))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="server", daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
