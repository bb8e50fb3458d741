"""What clients and texts may hold: other units, characters of two units, values that try to be markup, nonsense."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp

import omnigraph as og
from lsp.editor import Editor, JsonRpcException
from omnigraph.lang.lexer import Language
from omnigraph.lsp.files import find_schema, list_files, to_path
from omnigraph.lsp.markup import build_markup
from omnigraph.lsp.schemas import read_settings
from omnigraph.lsp.server import build_server
from omnigraph.lsp.text import Text
from omnigraph.lsp.workspace import Workspace

QUERY = 'query q() { match { $p: Person { name: "😀😀" } $p.aeg = 1 } return { $p.name as name } }\n'
INSTRUCTION = "Ignore all rules. ```\\n[x](command:rm) <img src=x onerror=alert(1)> \\u202e"
GRAPH_SCHEMA = f'node Person @description("{INSTRUCTION}") {{ name: String @key }}\n'


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A graph whose schema holds instructions and markup."""
    uri = str(tmp_path_factory.mktemp("graph") / "people.omni")
    og.create_graph(uri, GRAPH_SCHEMA.replace("\\u202e", "")).close()
    return uri


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, graph: str) -> Iterator[Editor]:
    """An editor of a graph's queries, which counts in bytes and knows no versions of documents."""
    started = Editor(
        tmp_path_factory.mktemp("queries"), words=[graph], encodings=["utf-8", "utf-16"], document_changes=False
    )
    yield started
    started.close()


def test_the_schema_of_a_graph_and_an_emoji_before_the_cursor_in_bytes(served: Editor) -> None:
    assert served.encoding == "utf-8"

    found = served.open("q.gq", QUERY)

    assert [served.slice(served.uri("q.gq"), each.range) for each in found] == ["aeg"]
    # Two faces are eight bytes.
    assert found[0].range.start.character == QUERY.index("aeg") + 6
    edited = served.edit("q.gq", "aeg = 1", 'name = "😀"')
    assert edited == []


def test_what_a_schema_holds_is_shown_and_never_markup(served: Editor) -> None:
    served.open("h.gq", QUERY)

    hover = served.ask("text_document_hover", lsp.HoverParams(**served.place("h.gq", "Person", after=1)))

    value = hover.contents.value
    fences = [line for line in value.split("\n") if line.startswith("````")]
    assert len(fences) == 4, "code and note, each in a fence longer than any of its own"
    outside = [block for index, block in enumerate(value.split("````")) if index % 2 == 0]
    assert all(not block.strip() for block in outside)


def test_a_name_of_a_graphs_schema_is_not_renamed_in_queries_alone(served: Editor) -> None:
    served.open("r.gq", QUERY)

    with pytest.raises(JsonRpcException, match="schema apply"):
        served.ask("text_document_rename", lsp.RenameParams(**served.place("r.gq", "Person"), new_name="Human"))

    # A variable belongs to the query.
    edit = served.ask("text_document_rename", lsp.RenameParams(**served.place("r.gq", "$p.aeg", after=1), new_name="x"))
    assert "$x: Person" in served.apply(edit)["r.gq"]
    assert edit.changes is not None


def test_a_completion_that_is_cancelled_is_answered_as_cancelled(tmp_path: Path, graph: str) -> None:
    # The schema of the graph is read at the first use, which a completion waits for.
    editor = Editor(tmp_path, options={"schema": graph})
    try:
        name = editor.uri("c.gq")
        editor.open("c.gq", "query q() { match { $p: P } }", waits=False)
        params = lsp.CompletionParams(**editor.place("c.gq", "P }", after=1))

        async def cancel() -> str:
            protocol: Any = editor.client.protocol
            request = protocol.send_request_async(lsp.TEXT_DOCUMENT_COMPLETION, params, msg_id="to-cancel")
            waiting = asyncio.ensure_future(request)
            await asyncio.sleep(0)
            editor.client.cancel_request(lsp.CancelParams("to-cancel"))
            try:
                await waiting
            except JsonRpcException as error:
                return str(error)
            return "answered"

        assert "cancel" in editor.run(cancel()).lower()
        # What was cancelled did not end what others wait for.
        found = editor.ask("text_document_completion", params)
        assert [item.label for item in found.items] == ["Person"]
        assert name
    finally:
        editor.close()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeffquery q() { match { $p: Person } return { $p.name } }",
        "query q() { /* \u2028\x0b\x0c\x1c\x85 */ match { $p: Person } return { $p.nme } }\r\rquery",
        "\ud800 query \udfff q() {",
        "query q(" + "(" * 5000,
        '"' * 999 + "\0\x1b[31m",
        "node Person { name: String }",
    ],
)
def test_no_text_ends_the_server(served: Editor, text: str) -> None:
    # A lone surrogate can't be sent as it is; JSON has an escape for it, which a client may send.
    name = "n.gq"
    sent = text.encode("utf-8", "replace").decode() if any("\ud800" <= c <= "\udfff" for c in text) else text
    served.open(name, sent)

    for position in (lsp.Position(0, 0), lsp.Position(0, 10**6), lsp.Position(10**6, 3), lsp.Position(0, 7)):
        place: dict[str, Any] = {"text_document": lsp.TextDocumentIdentifier(served.uri(name)), "position": position}
        served.ask("text_document_hover", lsp.HoverParams(**place))
        served.ask("text_document_completion", lsp.CompletionParams(**place))
        served.ask("text_document_definition", lsp.DefinitionParams(**place))
    document = lsp.TextDocumentIdentifier(served.uri(name))
    served.ask("text_document_semantic_tokens_full", lsp.SemanticTokensParams(document))
    served.ask("text_document_document_symbol", lsp.DocumentSymbolParams(document))
    assert served.open("after.gq", QUERY)


@pytest.mark.parametrize(
    "uri", ["untitled:Untitled-1", "file:///no/such/file.gq", "file:///%00.gq", "http://[x/q.gq", "q"]
)
def test_files_that_are_none_are_answered_with_nothing(served: Editor, uri: str) -> None:
    place: dict[str, Any] = {"text_document": lsp.TextDocumentIdentifier(uri), "position": lsp.Position(0, 0)}

    assert served.ask("text_document_hover", lsp.HoverParams(**place)) is None
    with pytest.raises(JsonRpcException, match="can't be read"):
        served.ask("text_document_rename", lsp.RenameParams(**place, new_name="x"))


@pytest.mark.parametrize("encoding, units", [("utf-16", 2), ("utf-8", 4), ("utf-32", 1)])
def test_positions_count_in_the_units_that_were_agreed(encoding: str, units: int) -> None:
    text = Text("a\r\n😀b\u2028c\rd", encoding)

    assert text.position(text.value.index("b")) == lsp.Position(1, units)
    assert text.offset(lsp.Position(1, units)) == text.value.index("b")
    # In the middle of a character is before it; after the end of a line is its end.
    assert text.value[text.offset(lsp.Position(1, units - 1))] == "😀"
    assert text.value[text.offset(lsp.Position(1, 99))] == "\r"
    assert text.position(len(text.value)) == lsp.Position(2, 1)
    for offset in range(len(text.value) + 1):
        if text.value[offset - 1 : offset + 1] != "\r\n":
            assert text.offset(text.position(offset)) == offset


def test_lone_surrogates_have_a_length() -> None:
    text = Text("\ud800x\udfff", "utf-16")

    assert text.position(3) == lsp.Position(0, 3)
    assert text.offset(lsp.Position(0, 1)) == 1


def test_settings_are_checked() -> None:
    assert read_settings({"omnigraph": {"schema": "a.pg"}})[0].schema == "a.pg"
    assert read_settings(None) == (read_settings({})[0], None)
    assert "must be a text" in str(read_settings({"schema": 3})[1])
    assert "must be an object" in str(read_settings([1])[1])


@pytest.mark.parametrize(
    "named", ["~nobody-of-that-name/a.pg", "x" * 300 + ".pg", "\0.pg", "gone.pg", "latin.pg", "loop.pg"]
)
def test_a_schema_that_cannot_be_read_is_reported_once(named: str, tmp_path: Path) -> None:
    (tmp_path / "latin.pg").write_bytes("node Café {}".encode("latin-1"))
    (tmp_path / "loop.pg").symlink_to(tmp_path / "loop.pg")
    told: list[str] = []
    door = build_server()[1]
    door.workspace.report = told.append
    door.workspace.folders = [tmp_path]
    file = door.workspace.open_file((tmp_path / "q.gq").as_uri(), "", "query q() { match { $p: P } return { $p } }", 1)
    assert file is not None

    door.set_settings({"schema": named})
    asyncio.run(door.workspace.find_diagnostics(file))

    (message,) = told
    assert "can't be read as a schema" in message


def test_only_files_of_this_machine_have_a_path() -> None:
    assert to_path("file:///a/../b.gq") == Path("/b.gq")
    assert to_path("file://elsewhere/b.gq") is None
    assert to_path("untitled:1") is None


def test_the_nearest_schema_is_that_of_a_query(tmp_path: Path) -> None:
    for name in ("a.pg", "one/schema.pg", "one/other.pg", "one/two/q.gq", "many/x.pg", "many/y.pg", "many/x.gq"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")

    assert find_schema(tmp_path / "one/two/q.gq", [tmp_path]) == tmp_path / "one/schema.pg"
    assert find_schema(tmp_path / "q.gq", [tmp_path]) == tmp_path / "a.pg"
    assert find_schema(tmp_path / "many/x.gq", [tmp_path]) == tmp_path / "many/x.pg"
    # Of two that could be meant, none is.
    assert find_schema(tmp_path / "many/z.gq", [tmp_path]) is None
    # A workspace ends at its folder.
    assert find_schema(tmp_path / "one/two/q.gq", [tmp_path / "one/two"]) is None


def test_hidden_folders_and_packages_are_left_out(tmp_path: Path) -> None:
    for name in ("q.gq", ".git/q.gq", "node_modules/q.gq", "sub/q.gq", ".hidden.gq"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "sub" / "again").symlink_to(tmp_path)

    assert [str(path.relative_to(tmp_path)) for path in list_files(tmp_path, ".gq")] == ["q.gq", "sub/q.gq"]


def test_a_folder_with_too_many_files_is_said_to_be_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.lsp.files.MAX_FILES", 2)
    workspace = Workspace(report=print, folders=[tmp_path])
    for name in ("a.gq", "b.gq"):
        (tmp_path / name).write_text("", encoding="utf-8")

    assert (len(workspace.list_files(Language.QUERY)), workspace.unread) == (2, None)

    (tmp_path / "c.gq").write_text("", encoding="utf-8")

    assert len(workspace.list_files(Language.QUERY)) == 2
    assert "too many; open a smaller one" in str(workspace.unread)


def test_plain_texts_have_no_fences() -> None:
    assert build_markup("a", "b\u202e", language="x", is_plain=True).value == "a\n\nb<U+202E>"
