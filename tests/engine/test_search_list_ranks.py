"""Ranks of a list: rows that differ (`mmr`), and rows that a model has read (`rerank`)."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from omnigraph.clock import SystemClock
from omnigraph.engine import json_endpoint
from omnigraph.engine.embed import EmbeddingError, ProviderFailedError
from omnigraph.engine.query_budget import Budget, QueryTimeoutError
from omnigraph.engine.rerankers.http import HttpReranker
from omnigraph.engine.rerankers.overlap import OverlapReranker
from omnigraph.errors import SettingsError
from omnigraph.options import Options, RerankOptions, RerankProvider
from omnigraph.runtime import Runtime
from reference_search import chosen_to_differ, cosine_distance

SCHEMA = "node Doc { k: String @key  body: String?  vec: Vector(3)?  far: Vector(3)? }"
OVERLAP = Options(reranking=RerankOptions(provider=RerankProvider.OVERLAP))


def made(path: Path, rows: list[dict[str, object]], options: Options = OVERLAP) -> og.Graph:
    graph = og.create_graph(str(path), SCHEMA, runtime=Runtime(options=options))
    graph.load([{"type": "Doc", "data": row} for row in rows], mode="append")
    return graph


def ask(graph: og.Graph, rank: str, limit: int, columns: str = "") -> list[dict[str, object]]:
    query = f"query q() {{ match {{ $d: Doc }} return {{ $d.k{columns} }} order {{ {rank} }} limit {limit} }}"
    return list(graph.query(query).rows())


@pytest.mark.parametrize("seed", range(4))
def test_rows_differ_as_the_naive_choice_does(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    # Whole numbers from -2 to 2: there are equal rows, vectors of zeros, and ties.
    rows: list[dict[str, object]] = [
        dict[str, object]({"k": f"d{n:03}", "vec": [float(random.randint(-2, 2)) for _ in range(3)]})
        | ({} if random.random() < 0.2 else {"far": [random.randint(-99, 99) / 64 for _ in range(3)]})
        for n in range(150)
    ]
    graph = made(tmp_path / "g", rows)
    query = (0.25, 1.0, -0.125)
    distance = {str(row["k"]): cosine_distance(row["vec"], query) for row in rows}  # type: ignore[arg-type]
    pool = sorted(distance, key=lambda k: (distance[k], k))[:100]
    vectors = {str(row["k"]): row.get("far") for row in rows}
    expected = chosen_to_differ({k: -distance[k] for k in pool}, {k: vectors[k] for k in pool}, 0.25, 12)  # type: ignore[misc]

    rank = "mmr(nearest($d.vec, [0.25, 1, -0.125]), $d.far, lambda=0.25)"
    found = ask(graph, rank, 12, f", {rank} as score")

    assert [row["d.k"] for row in found] == list(expected)[:12]
    assert [row["score"] for row in found] == pytest.approx(list(expected.values())[:12], abs=1e-9)


def test_a_vector_of_any_length_has_a_direction(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"k": "a", "vec": [1e-30, 0, 0]},
        {"k": "b", "vec": [1e30, 0, 0]},
        {"k": "c", "vec": [1, 1, 0]},
    ]
    found = ask(made(tmp_path / "g", rows), "mmr(nearest($d.vec, [1, 0, 0]), $d.vec, lambda=0.1)", 3)

    assert [row["d.k"] for row in found] == ["a", "c", "b"]


def test_rows_are_reranked_by_what_a_reranker_says(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"k": "a", "body": "graph", "vec": [1, 0, 0]},
        {"k": "b", "body": "a graph engine", "vec": [0, 1, 0]},
        {"k": "c", "vec": [1, 0, 0]},
        {"k": "d", "body": "other", "vec": [1, 0, 0]},
    ]
    rank = 'rerank(nearest($d.vec, [1, 0, 0]), $d.body, "graph engines")'

    found = ask(made(tmp_path / "g", rows), rank, 4, f", {rank} as score")

    assert [tuple(row.values()) for row in found] == [("b", 1.0), ("a", 0.5), ("d", 0.0)]


def test_only_the_best_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(tmp_path / "g", [{"k": f"d{n:03}", "body": f"w{n}", "vec": [1, n, 0]} for n in range(300)])
    calls: list[int] = []
    rerank = OverlapReranker.rerank

    def count_texts(self: OverlapReranker, query: str, texts: Sequence[str]) -> Sequence[float]:
        calls.append(len(texts))
        return rerank(self, query, texts)

    monkeypatch.setattr(OverlapReranker, "rerank", count_texts)

    found = ask(graph, 'rerank(nearest($d.vec, [1, 0, 0]), $d.body, "w99 w100")', 2)

    assert (calls, [row["d.k"] for row in found]) == ([100], ["d099", "d000"])


@pytest.mark.parametrize(
    "limit, sent", [(2, [100]), (120, [150]), (150, [150]), (151, "judge 151 texts, and a query may send 150")]
)
def test_a_limit_does_not_decide_how_many_texts_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, sent: list[int] | str
) -> None:
    reranking = RerankOptions(provider=RerankProvider.OVERLAP, max_texts=150)
    rows: list[dict[str, object]] = [{"k": f"d{n:03}", "body": f"w{n}", "vec": [1, n, 0]} for n in range(300)]
    graph = made(tmp_path / "g", rows, Options(reranking=reranking))
    calls: list[int] = []
    rerank = OverlapReranker.rerank

    def count(self: OverlapReranker, query: str, texts: Sequence[str]) -> Sequence[float]:
        calls.append(len(texts))
        return rerank(self, query, texts)

    monkeypatch.setattr(OverlapReranker, "rerank", count)
    rank = 'rerank(nearest($d.vec, [1, 0, 0]), $d.body, "w149")'

    if isinstance(sent, str):
        with pytest.raises(EmbeddingError, match=sent):
            ask(graph, rank, limit)
        assert not calls
    else:
        # The rank is computed for the order and for the column, and its texts are sent once.
        assert len(ask(graph, rank, limit, f", {rank} as score")) == limit
        assert calls == sent


def test_several_rerankings_of_a_query_send_no_more_texts_than_one(tmp_path: Path) -> None:
    reranking = RerankOptions(provider=RerankProvider.OVERLAP, max_texts=250)
    rows: list[dict[str, object]] = [{"k": f"d{n:03}", "body": f"w{n}", "vec": [1, n, 0]} for n in range(300)]
    graph = made(tmp_path / "g", rows, Options(reranking=reranking))
    judged = [f'rerank(nearest($d.vec, [1, 0, 0]), $d.body, "w{n}")' for n in range(3)]

    with pytest.raises(EmbeddingError, match="judge 300 texts, and a query may send 250"):
        ask(graph, judged[0], 1, f", {judged[1]} as a, {judged[2]} as b")


def test_without_a_reranker_a_query_says_how_to_set_one(tmp_path: Path) -> None:
    graph = made(tmp_path / "g", [{"k": "a", "body": "x", "vec": [1, 0, 0]}], Options())

    with pytest.raises(SettingsError, match="OMNIGRAPH_RERANK_PROVIDER"):
        ask(graph, 'rerank(bm25($d.body, "x"), $d.body, "x")', 1)


# --- over HTTP ---------------------------------------------------------------------------------------


class Server(HTTPServer):
    """Answers each request with the next of its replies, and remembers them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[tuple[int, object]] = []
        self.requests: list[tuple[str, str | None, dict[str, object]]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, self.headers["Authorization"], body))
        status, reply = self.server.replies.pop(0)
        content = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def reranker(server: Server) -> HttpReranker:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    options = RerankOptions(provider=RerankProvider.HTTP, url=url, model="m", key="secret")
    return HttpReranker(options, SystemClock(), lambda _: 0.0)


def test_a_server_judges_all_texts_in_one_request(server: Server) -> None:
    results = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    server.replies = [(503, {"error": "busy"}), (200, {"results": results})]

    assert list(reranker(server).rerank("q", ["a", "b"])) == [0.1, 0.9]
    body = {"model": "m", "query": "q", "documents": ["a", "b"], "top_n": 2}
    assert server.requests == [("/v1/rerank", "Bearer secret", body)] * 2


@pytest.mark.parametrize(
    "reply, error",
    [
        ((401, {"error": {"message": "no secret"}}), EmbeddingError),
        ((200, {"results": [{"index": 0, "relevance_score": 1.0}]}), ProviderFailedError),
        ((200, {"results": [{"index": 0, "relevance_score": 1.0}] * 2}), ProviderFailedError),
        ((200, {"data": []}), ProviderFailedError),
    ],
)
def test_a_reply_that_does_not_judge_every_text_is_an_error(
    server: Server, reply: tuple[int, object], error: type[Exception]
) -> None:
    server.replies = [reply]

    with pytest.raises(error) as found:
        reranker(server).rerank("q", ["a", "b"])

    assert "secret" not in str(found.value)


def test_a_reply_that_is_too_large_is_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_endpoint, "_MAX_RESPONSE_BYTES", 20)
    server.replies = [(200, {"results": [{"index": 0, "relevance_score": 1.0}]})]

    with pytest.raises(ProviderFailedError, match="more than 20 bytes"):
        reranker(server).rerank("q", ["a"])


def test_a_server_that_trickles_ends_with_the_query() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def trickle() -> None:
        plug, _ = listener.accept()
        with plug, suppress(OSError):
            plug.recv(65_536)
            plug.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not stop.wait(0.02):
                plug.sendall(b" ")

    thread = threading.Thread(target=trickle, daemon=True)
    thread.start()
    options = RerankOptions(
        provider=RerankProvider.HTTP, url=f"http://127.0.0.1:{listener.getsockname()[1]}", model="m"
    )
    budget = Budget(SystemClock(), seconds=0.3)
    try:
        with pytest.raises(QueryTimeoutError):
            HttpReranker(options, SystemClock(), lambda _: 0.0, budget).rerank("q", ["a"])
    finally:
        stop.set()
        thread.join(10)
        listener.close()


def test_incomplete_settings_are_named() -> None:
    for options in (RerankOptions(provider=RerankProvider.HTTP), RerankOptions(url="ftp://x", model="m")):
        with pytest.raises(SettingsError, match="OMNIGRAPH_RERANK_URL"):
            HttpReranker(options, SystemClock(), lambda _: 0.0)
