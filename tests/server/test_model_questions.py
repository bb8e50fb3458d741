"""The questions for models: each gold query answers its question, and each wrong form is told the right one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import model_questions
from model_questions import GRAPHS, build_graph, is_right, main, read_questions
from omnigraph.lang.source import Source
from omnigraph.query.static_checks import check_queries, check_schema

QUESTIONS = {name: read_questions(name) for name in GRAPHS}


def test_there_are_sixty_questions_over_two_graphs_with_three_wrong_forms_each() -> None:
    asked = [question for questions in QUESTIONS.values() for question in questions]
    wrong = [form for question in asked for form, _ in question.wrong]

    assert len(asked) == len({question.ask for question in asked}) == 60
    assert {len(question.wrong) for question in asked} == {3}
    assert len(set(wrong)) == 180


@pytest.mark.parametrize("name", GRAPHS)
def test_each_gold_query_answers_its_question(name: str, tmp_path: Path) -> None:
    graph = build_graph(name, tmp_path)

    failed = [question.ask for question in QUESTIONS[name] if not is_right(graph, question.gold, question)]

    assert failed == []
    assert all(question.rows for question in QUESTIONS[name])


@pytest.mark.parametrize("name", GRAPHS)
def test_each_wrong_form_has_a_diagnostic_that_names_the_right_one(name: str) -> None:
    text = (model_questions.ROOT / "examples" / name / "schema.pg").read_text(encoding="utf-8")
    _, catalog = check_schema(Source(text, name))
    silent = []
    for question in QUESTIONS[name]:
        for form, right in question.wrong:
            report = check_queries(Source(form, "q"), catalog, allows_bare=True)
            if not any(right in (item.help or "") for item in report.diagnostics):
                silent.append((form, [(item.message, item.help) for item in report.diagnostics]))

    assert silent == []


# --- the script, against a model of its own ----------------------------------------------------------------


@contextmanager
def model(*answers: str) -> Iterator[tuple[str, list[Any]]]:
    """An OpenAI-compatible endpoint on loopback that gives these answers in turn; what it was asked is noted."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = answers[min(len(asked), len(answers) - 1)]
            asked.append((self.path, self.headers["Authorization"], body))
            reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": content}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_script_asks_corrects_and_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, third, fourth = questions = QUESTIONS["supply-chain"][:4]
    monkeypatch.setattr(model_questions, "read_questions", lambda _: questions)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
    fenced = "```gq\n{}\n```".format
    answers = (
        fenced(first.gold),
        fenced(second.wrong[0][0]),
        fenced(second.gold),
        fenced(fourth.gold),
        third.wrong[0][0].replace("COUNT", "Count"),
        "I can't.",
    )
    answers = (*answers[:3], fenced(fourth.gold), answers[5], answers[5])

    with model(*answers) as (url, asked):
        code = main(["--url", url, "--model", "tiny", "--graph", "supply-chain"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line[:24].strip() for line in lines[:4]] == ["right", "right after a diagnostic", "wrong", "mistakes"]
    assert lines[4] == "1 of 4 mistakes, 1 of 4 right, 1 of 4 right after a diagnostic, 1 of 4 wrong"
    path, key, body = asked[0]
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer key-of-a-test", "tiny")
    assert "node Part(number: String" in body["messages"][0]["content"]
    assert "a read is written `match {" in asked[2][2]["messages"][-1]["content"]
