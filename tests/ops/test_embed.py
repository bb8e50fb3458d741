"""Computing vectors: what is missing is filled in commits that can be resumed, and never from an outdated text."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

import omnigraph as og
from mutating import run
from omnigraph.clock import SystemClock
from omnigraph.engine.embed import EmbeddingError, ProviderFailedError, embed_texts
from omnigraph.engine.embedders.factory import build_query_embedder, create_provider
from omnigraph.engine.embedders.hashing import HashProvider
from omnigraph.engine.embedders.openai_http import OpenAIProvider
from omnigraph.engine.json_endpoint import MAX_ATTEMPTS
from omnigraph.engine.query_budget import Budget, QueryTimeoutError
from omnigraph.errors import MissingError, SettingsError
from omnigraph.ops.open_table import TypeMissingError
from omnigraph.options import EmbedOptions, EmbedProvider
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import Embedding, Property
from omnigraph.schema.types import VectorOf
from raised_codes import has_code
from worlds import FAST

if TYPE_CHECKING:
    from omnigraph.ops.embed import EmbedProgress

KEY = "sk-very-secret"
HASH = EmbedOptions(provider=EmbedProvider.HASH)
SCHEMA = """
node Doc {
  name: String @key
  text: String?
  title: String?
  vec: Vector(8)? @embed("text")
  title_vec: Vector(4)? @embed("title", model="hash")
  stamp: I64?
}
node Plain { name: String }
"""


def with_provider(options: EmbedOptions) -> Runtime:
    return Runtime(options=og.Options(durability=FAST.durability, backoff_seconds=0.001, embedding=options))


def new_graph(root: Path, options: EmbedOptions = HASH, schema: str = SCHEMA) -> og.Graph:
    return og.create_graph(str(root / "g"), schema, runtime=with_provider(options))


def add(graph: og.Graph, **texts: str | None) -> None:
    for name, text in texts.items():
        given = "null" if text is None else json.dumps(text)
        run(graph, f'insert Doc {{ name: "{name}", text: {given}, stamp: 7 }}')


def vectors(graph: og.Graph, column: str = "vec") -> dict[str, list[float] | None]:
    table = graph.table("Doc").to_table(columns=["id", column])
    return dict(zip(table["id"].to_pylist(), table[column].to_pylist(), strict=True))


def hashed(text: str, size: int = 8) -> list[float]:
    found: list[float] = HashProvider().embed([text], size)[0].tolist()
    return found


class Recorder:
    """A provider that remembers what it was asked, and may do something first."""

    name = model = "recorder"
    dimension = None

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.before: list[Any] = []

    def embed(self, texts: Sequence[str], size: int) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        if self.before:
            self.before.pop(0)()
        return HashProvider().embed(texts, size)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr("omnigraph.ops.embed.create_provider", lambda *_: made)
    return made


# --- filling ---------------------------------------------------------------------------------------------


def test_missing_vectors_are_filled_and_nothing_else_changes(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="graph engine", b="red apple", c=None, d="  ")

    result = graph.embed("Doc", property="vec")

    assert vectors(graph) == {"a": hashed("graph engine"), "b": hashed("red apple"), "c": None, "d": None}
    assert graph.table("Doc").to_table(columns=["stamp"])["stamp"].to_pylist() == [7] * 4
    assert result.to_json() == {
        "type": "Doc",
        "target": {"branch": "main"},
        "provider": "hash",
        "model": "hash",
        "dry_run": False,
        "properties": [{"property": "vec", "source": "text", "waiting": 2, "embedded": 2, "without_text": 2}],
        "commits": [graph.commits()[0].id],
    }
    assert graph.commits()[0].operation == "embed"


def test_all_vectors_of_the_type_are_filled_unless_one_is_named(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'insert Doc { name: "a", text: "one", title: "two" }')

    result = graph.embed("Doc")

    assert [one.property for one in result.properties] == ["vec", "title_vec"]
    assert vectors(graph) == {"a": hashed("one")}
    assert vectors(graph, "title_vec") == {"a": hashed("two", 4)}


def test_each_batch_is_a_commit_and_a_second_run_has_nothing_to_do(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, **{f"d{n}": f"text {n}" for n in range(5)})

    first, second = (graph.embed("Doc", property="vec", batch=2) for _ in range(2))

    assert (len(first.commits), len(second.commits)) == (3, 0)
    assert recorder.asked == [["text 0", "text 1"], ["text 2", "text 3"], ["text 4"]]


def test_a_limit_leaves_the_rest_for_later(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    add(graph, **{f"d{n}": f"text {n}" for n in range(5)})

    result = graph.embed("Doc", property="vec", limit=3)

    assert (result.properties[0].waiting, result.properties[0].embedded) == (5, 3)
    assert sum(vector is not None for vector in vectors(graph).values()) == 3


def test_a_dry_run_writes_nothing(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one")
    before = graph.commits()[0].id

    result = graph.embed("Doc", property="vec", dry_run=True)

    assert (result.properties[0].waiting, result.properties[0].embedded, result.commits) == (1, 0, ())
    assert graph.commits()[0].id == before
    assert recorder.asked == []


def test_vectors_that_are_there_are_computed_anew_only_when_asked(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    run(graph, 'insert Doc { name: "a", text: "one", vec: [1, 0, 0, 0, 0, 0, 0, 0] }')

    graph.embed("Doc", property="vec")
    kept = vectors(graph)
    graph.embed("Doc", property="vec", all=True)

    assert kept == {"a": [1, 0, 0, 0, 0, 0, 0, 0]}
    assert vectors(graph) == {"a": hashed("one")}


def test_equal_texts_are_computed_once(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="same", b="same", c="other")

    graph.embed("Doc", property="vec")

    assert recorder.asked == [["same", "other"]]


def test_progress_is_told(tmp_path: Path) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one", b="two", c="three")
    told: list[EmbedProgress] = []

    graph.embed("Doc", property="vec", batch=2, progress=told.append)

    assert [(one.property, one.done, one.total) for one in told] == [("vec", 0, 3), ("vec", 2, 3), ("vec", 3, 3)]


def test_blobs_of_the_rows_stay(tmp_path: Path) -> None:
    schema = 'node Doc { name: String @key  text: String  data: Blob?  vec: Vector(4)? @embed("text") }'
    graph = new_graph(tmp_path, schema=schema)
    run(graph, 'query q($b: Blob) { insert Doc { name: "a", text: "one", data: $b } }', b=b"bytes")

    graph.embed("Doc")

    blob = graph.blob("Doc", "a", "data")
    assert blob is not None
    assert blob.read() == b"bytes"
    assert vectors(graph) == {"a": hashed("one", 4)}


# --- others write meanwhile --------------------------------------------------------------------------------


def test_a_text_that_changes_meanwhile_gets_its_own_vector(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="old words", b="kept")
    recorder.before = [lambda: run(graph, 'update Doc set { text: "new words" } where name = "a"')]

    graph.embed("Doc", property="vec")

    assert vectors(graph) == {"a": hashed("new words"), "b": hashed("kept")}
    assert recorder.asked == [["old words", "kept"], ["new words"]]


def test_a_row_that_is_deleted_meanwhile_stays_deleted(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one", b="two")
    recorder.before = [lambda: run(graph, 'delete Doc where name = "a"')]

    result = graph.embed("Doc", property="vec")

    assert vectors(graph) == {"b": hashed("two")}
    assert result.properties[0].embedded == 1


def test_other_rows_may_change_meanwhile(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one")
    recorder.before = [lambda: add(graph, z="late")]

    graph.embed("Doc", property="vec")

    assert vectors(graph) == {"a": hashed("one"), "z": None}
    assert recorder.asked == [["one"]]


def test_a_row_that_somebody_else_filled_meanwhile_is_left_alone(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one", b="two")
    recorder.before = [lambda: run(graph, 'update Doc set { vec: [9, 0, 0, 0, 0, 0, 0, 0] } where name = "a"')]

    graph.embed("Doc", property="vec")

    assert vectors(graph) == {"a": [9, 0, 0, 0, 0, 0, 0, 0], "b": hashed("two")}


def test_what_was_committed_before_a_failure_stays(tmp_path: Path, recorder: Recorder) -> None:
    graph = new_graph(tmp_path)
    add(graph, a="one", b="two")

    def fail() -> None:
        raise ProviderFailedError("recorder", "it broke")

    recorder.before = [lambda: None, fail]
    with pytest.raises(ProviderFailedError):
        graph.embed("Doc", property="vec", batch=1)
    stopped = vectors(graph)
    graph.embed("Doc", property="vec", batch=1)

    assert stopped == {"a": hashed("one"), "b": None}
    assert vectors(graph) == {"a": hashed("one"), "b": hashed("two")}


# --- what is refused -----------------------------------------------------------------------------------------


def test_without_a_provider_the_way_out_is_told(tmp_path: Path) -> None:
    graph = new_graph(tmp_path, EmbedOptions())

    with pytest.raises(SettingsError, match=r"Doc\.vec.*OMNIGRAPH_EMBED_PROVIDER to `openai` or `hash`$"):
        graph.embed("Doc")
    with pytest.raises(SettingsError, match=r"OMNIGRAPH_EMBED_PROVIDER to `openai` or `hash`, or give a vector$"):
        build_query_embedder(with_provider(EmbedOptions()), Budget(SystemClock()))("text", vector_property())


@pytest.mark.parametrize(
    "type_name, property_name, error, story",
    [
        ("Dco", None, TypeMissingError, "did you mean `Doc`"),
        ("Plain", None, MissingError, "`Plain` has no vector"),
        ("Doc", "text", MissingError, r"`Doc\.text` is not a vector"),
        ("Doc", "vex", MissingError, "did you mean `vec`"),
    ],
)
def test_a_name_that_means_nothing_is_refused(
    tmp_path: Path, type_name: str, property_name: str | None, error: type[Exception], story: str
) -> None:
    graph = new_graph(tmp_path)

    with pytest.raises(error, match=story):
        graph.embed(type_name, property=property_name)


def test_a_read_only_graph_is_not_embedded(tmp_path: Path) -> None:
    new_graph(tmp_path)
    graph = og.open_graph(str(tmp_path / "g"), read_only=True, runtime=with_provider(HASH))

    with pytest.raises(og.ReadOnlyError):
        graph.embed("Doc")
    assert graph.embed("Doc", dry_run=True).commits == ()


def vector_property(size: int = 8, model: str | None = None) -> Property:
    return Property(name="vec", type=VectorOf(size), embedding=Embedding(source="text", model=model))


def test_another_model_than_declared_is_refused() -> None:
    with pytest.raises(EmbeddingError, match=r"`bge-small`.*`hash`"):
        embed_texts(HashProvider(), vector_property(model="bge-small"), ["a"])


# --- hashing --------------------------------------------------------------------------------------------------


def test_hashed_vectors_have_length_one_and_depend_on_the_words_only() -> None:
    found = HashProvider().embed(["Running graphs", "graph runs", "apples", ""], 16)

    assert found.dtype == np.float32
    assert found[0].tolist() == found[1].tolist()
    assert np.linalg.norm(found, axis=1).tolist() == pytest.approx([1, 1, 1, 0])
    assert float(found[0] @ found[2]) < 0.9


def test_hashed_vectors_are_the_same_everywhere() -> None:
    assert np.flatnonzero(HashProvider().embed(["graph"], 1024)[0]).tolist() == [1021]


# --- a server ---------------------------------------------------------------------------------------------------


class Server:
    """Answers on the loopback: first with `scripted` statuses, then with vectors of `size` numbers."""

    def __init__(self, size: int = 8, scripted: Sequence[tuple[int, dict[str, str], bytes]] = ()) -> None:
        self.size, self.scripted = size, list(scripted)
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.url = ""

    def answer(self, path: str, headers: dict[str, str], body: Any) -> tuple[int, dict[str, str], bytes]:
        self.requests.append((path, headers, body))
        if self.scripted:
            return self.scripted.pop(0)
        rows = HashProvider().embed(body["input"], self.size).tolist()
        data = [{"object": "embedding", "index": place, "embedding": row} for place, row in enumerate(rows)]
        return 200, {}, json.dumps({"data": data[::-1], "model": body["model"]}).encode()


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = server.answer(self.path, dict(self.headers), body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody listens."""

    http = HTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}/v1/"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


class Waits(SystemClock):
    """A clock whose waits are only noted."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


def client(url: str, clock: Waits | None = None, key: str | None = KEY) -> OpenAIProvider:
    options = EmbedOptions(provider=EmbedProvider.OPENAI, url=url, model="m1", key=key, timeout_seconds=5)
    return OpenAIProvider(options, clock or Waits(), lambda limit: limit)


def test_a_server_is_asked_in_batches_and_answers_in_any_order() -> None:
    texts = [f"text {n}" for n in range(300)]

    with serving(Server()) as server:
        found = embed_texts(client(server.url), vector_property(), texts)

    assert found.tolist() == HashProvider().embed(texts, 8).tolist()
    assert [len(body["input"]) for _, _, body in server.requests] == [128, 128, 44]
    path, headers, body = server.requests[0]
    assert (path, headers["Authorization"], body["model"]) == ("/v1/embeddings", f"Bearer {KEY}", "m1")


def test_long_texts_make_small_batches() -> None:
    with serving(Server()) as server:
        client(server.url).embed(["a " * 60_000] * 3, 8)

    assert [len(body["input"]) for _, _, body in server.requests] == [1, 1, 1]


def test_a_busy_server_is_asked_again_ever_later() -> None:
    busy = [(429, {"Retry-After": "7"}, b""), (503, {}, b"{}"), (500, {"Retry-After": "tomorrow"}, b"")]
    clock = Waits()

    with serving(Server(scripted=busy)) as server:
        found = client(server.url, clock).embed(["a"], 8)

    assert found.tolist() == HashProvider().embed(["a"], 8).tolist()
    assert clock.waits == [7.0, 1.0, 2.0]


def test_a_server_that_stays_busy_is_given_up() -> None:
    clock, story = Waits(), f"503: overloaded, after {MAX_ATTEMPTS} attempts"
    overloaded = Server(scripted=[(503, {}, b"overloaded")] * MAX_ATTEMPTS)

    with serving(overloaded) as server, pytest.raises(ProviderFailedError, match=story):
        client(server.url, clock).embed(["a"], 8)

    assert len(server.requests) == MAX_ATTEMPTS
    assert len(clock.waits) == MAX_ATTEMPTS - 1


def test_a_server_that_is_not_there_is_asked_again_and_given_up() -> None:
    clock = Waits()
    with serving(Server()) as server:
        gone = server.url

    with pytest.raises(ProviderFailedError, match=r"no answer from 127\.0\.0\.1"):
        client(gone, clock).embed(["a"], 8)

    assert len(clock.waits) == MAX_ATTEMPTS - 1


def test_a_refusal_is_told_without_the_key() -> None:
    refusal = json.dumps({"error": {"message": f"bad key {KEY} for\nm1"}}).encode()

    with (
        serving(Server(scripted=[(401, {}, refusal)])) as server,
        pytest.raises(EmbeddingError, check=has_code("embedding_refused")) as caught,
    ):
        client(server.url).embed(["a"], 8)

    assert str(caught.value) == "the embedding provider `openai` refused (HTTP 401): bad key … for m1"
    assert KEY not in repr(caught.value)
    assert len(server.requests) == 1


def test_a_key_may_have_the_line_break_of_its_file() -> None:
    with serving(Server()) as server:
        client(server.url, key=f"{KEY}\n").embed(["a"], 8)

    assert server.requests[0][1]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("letter", ["\n", "é", " ", "\0"])
def test_a_key_that_is_none_is_refused_without_being_shown(letter: str) -> None:
    with pytest.raises(SettingsError, check=has_code("embedding_settings")) as caught:
        client("https://host.example/v1", key=f"{KEY}{letter}x")

    assert "OMNIGRAPH_EMBED_KEY" in str(caught.value)
    assert KEY not in repr(caught.value)


def test_a_query_waits_for_a_busy_server_no_longer_than_it_may() -> None:
    options = EmbedOptions(provider=EmbedProvider.OPENAI, model="m1", timeout_seconds=60)
    clock, busy = SystemClock(), Server(scripted=[(429, {"Retry-After": "60"}, b"")])

    with serving(busy) as server:
        settings = replace(options, url=server.url)
        provider = OpenAIProvider(settings, clock, lambda limit: limit, Budget(clock, seconds=0.2))
        with pytest.raises(QueryTimeoutError):
            provider.embed(["a"], 8)

    assert len(server.requests) == 1


def test_a_key_does_not_follow_a_redirect() -> None:
    with serving(Server()) as elsewhere:
        moved = [(307, {"Location": f"{elsewhere.url}embeddings"}, b"")]
        with serving(Server(scripted=moved)) as server, pytest.raises(EmbeddingError, match="307"):
            client(server.url).embed(["a"], 8)

    assert elsewhere.requests == []


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b'{"data": [{"index": 0, "embedding": ["x"]}]}',
        b'{"data": []}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": [1e39, 0, 0, 0, 0, 0, 0, 0]}]}',
    ],
)
def test_an_answer_that_holds_no_vectors_is_a_failure(content: bytes) -> None:
    with serving(Server(scripted=[(200, {}, content)])) as server, pytest.raises(ProviderFailedError):
        embed_texts(client(server.url), vector_property(), ["a"])


def test_vectors_of_another_size_are_refused() -> None:
    with serving(Server(size=3)) as server, pytest.raises(EmbeddingError, match=r"Vector\(8\).*`m1`.*3 numbers"):
        embed_texts(client(server.url), vector_property(), ["a"])


def test_a_query_asks_for_the_vector_of_a_text_once() -> None:
    with serving(Server()) as server:
        embed = build_query_embedder(
            with_provider(EmbedOptions(provider=EmbedProvider.OPENAI, url=server.url, model="m1", key=KEY)),
            Budget(SystemClock()),
        )
        found = [embed("graph", vector_property()) for _ in range(3)]

    assert found == [hashed("graph")] * 3
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url, key, model, story",
    [
        ("https://host/v1", KEY, None, "OMNIGRAPH_EMBED_MODEL"),
        ("ftp://host", None, "m", "https://host/v1"),
        ("https://user:word@host", None, "m", "without a name and password"),
        ("http://host.example/v1", KEY, "m", "in the clear"),
    ],
)
def test_settings_that_can_not_do_are_refused(url: str, key: str | None, model: str | None, story: str) -> None:
    runtime = with_provider(EmbedOptions(provider=EmbedProvider.OPENAI, url=url, model=model, key=key))

    with pytest.raises(SettingsError, match=story):
        create_provider(runtime)


def test_a_key_is_not_part_of_what_settings_show() -> None:
    options = og.Options(embedding=EmbedOptions(provider=EmbedProvider.OPENAI, model="m", key=KEY))

    assert KEY not in repr(options)


def test_a_whole_run_through_a_server(tmp_path: Path) -> None:
    with serving(Server()) as server:
        options = EmbedOptions(provider=EmbedProvider.OPENAI, url=server.url, model="m1", key=KEY)
        graph = new_graph(tmp_path, options, SCHEMA.replace(', model="hash"', ""))
        add(graph, a="graph engine")
        result = graph.embed("Doc", property="vec")

    assert vectors(graph) == {"a": hashed("graph engine")}
    assert (result.provider, result.model) == ("openai", "m1")
