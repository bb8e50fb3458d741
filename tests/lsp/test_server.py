"""The language server over stdin and stdout, with pytest-lsp's client."""

from pathlib import Path

import pytest
from lsprotocol import types as lsp

from lsp.editor import Editor, JsonRpcException
from omnigraph.lang.formatter import format_source
from omnigraph.lang.lexer import Language
from omnigraph.lang.source import Source

FRIENDS = """query friends($name: String) @description("Whom somebody knows.") {
    match {
        $p: Person { name: $name }
        $p $e:knows $q
        $q.age > 30
    }
    return { $q.name as friend, $e.since as since }
    order { friend }
}
"""
WORKERS = """query workers() {
    match {
        $p: Person
        $p worksAt $c
        $c.city = "Ulm"
    }
    return { $p.name as name, $p.age as age }
}
"""


def open_all(editor: Editor, folder: Path) -> tuple[str, str]:
    friends, workers = f"{folder}/friends.gq", f"{folder}/workers.gq"
    editor.write(workers, WORKERS)
    assert editor.open(friends, FRIENDS) == []
    return friends, workers


def test_diagnostics_follow_what_is_typed(editor: Editor, folder: Path) -> None:
    name = f"{folder}/q.gq"
    assert editor.open(name, FRIENDS) == []

    broken = editor.edit(name, "$q.age", "$q.aeg")

    assert [(each.code, each.severity) for each in broken] == [("T2", lsp.DiagnosticSeverity.Error)]
    assert broken[0].message == "unknown property `aeg` of `Person`\nhelp: did you mean `age`?"
    assert editor.slice(editor.uri(name), broken[0].range) == "aeg"
    assert editor.edit(name, "aeg", "age") == []


def test_a_schema_that_is_typed_reaches_the_queries_that_are_open(editor: Editor, folder: Path) -> None:
    name, schema = f"{folder}/q.gq", f"{folder}/schema.pg"
    assert editor.open(name, FRIENDS) == []
    editor.open(schema, (editor.folder / schema).read_text(encoding="utf-8"))

    text = editor.texts[editor.uri(schema)].value
    editor.edit(schema, text, text.replace("age", "years"), waits=False)

    found = editor.wait_until(name, bool)
    assert [each.message.split("\n")[0] for each in found] == ["unknown property `age` of `Person`"]


def test_hover_shows_types_and_what_is_written_about_them(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)

    def hover(mark: str, after: int = 1) -> str:
        found = editor.ask("text_document_hover", lsp.HoverParams(**editor.place(friends, mark, after=after)))
        return "" if found is None else str(found.contents.value)

    assert "node Person" in hover("Person")
    assert "Somebody who reads." in hover("Person")
    assert "$q: Person" in hover("$q.age")
    assert "Person.age: I32?" in hover("age >")
    assert "$name: String" in hover("$name }")
    assert "edge Knows: Person -> Person" in hover(":knows")
    assert "Whom somebody knows." in hover("friends(")
    assert hover("> 30", 2) == ""


def test_completion_in_both_languages(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)
    editor.open(f"{folder}/schema.pg", (editor.folder / folder / "schema.pg").read_text(encoding="utf-8"))

    def complete(name: str, mark: str, after: int) -> list[str]:
        params = lsp.CompletionParams(**editor.place(name, mark, after=after))
        return [item.label for item in editor.ask("text_document_completion", params).items]

    assert complete(friends, "$q.age", 3)[:3] == ["name", "age", "mood"]
    assert "age" in complete(friends, "$q.age", 4)
    assert complete(friends, "Person {", 3) == ["Person"]
    assert "String" in complete(f"{folder}/schema.pg", "age: I32", 5)
    assert complete(f"{folder}/schema.pg", "-> Company", 4) == ["Company"]
    assert "@embed" in complete(f"{folder}/schema.pg", "@embed", 1)
    assert complete(f"{folder}/schema.pg", "@range(age", 7) == ["age", "mood", "text", "vec"]


def test_definitions_and_references_over_files(editor: Editor, folder: Path) -> None:
    friends, workers = open_all(editor, folder)

    def define(mark: str, after: int = 1) -> list[str]:
        found = editor.ask("text_document_definition", lsp.DefinitionParams(**editor.place(friends, mark, after=after)))
        return [
            f"{Path(each.uri).name}:{each.range.start.line + 1}:{editor.slice(each.uri, each.range)}" for each in found
        ]

    assert define("Person") == ["schema.pg:6:Person"]
    assert define("age > 30") == ["schema.pg:7:age"]
    assert define(":knows") == ["schema.pg:19:Knows"]
    assert define("$q.age") == ["friends.gq:4:q"]
    assert define("$name }") == ["friends.gq:1:name"]
    assert define("friend }") == ["friends.gq:7:friend"]
    # A property of an interface is declared there.
    assert define("name: $name") == ["schema.pg:3:name"]

    params = lsp.ReferenceParams(
        **editor.place(friends, "age > 30"), context=lsp.ReferenceContext(include_declaration=True)
    )
    found = editor.ask("text_document_references", params)
    assert sorted({(Path(each.uri).name, each.range.start.line + 1) for each in found}) == [
        ("friends.gq", 5),
        ("schema.pg", 7),
        ("schema.pg", 11),
        ("schema.pg", 12),
        ("workers.gq", 7),
    ]
    assert workers


def test_a_property_is_renamed_over_two_files_and_the_schema(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)

    edit = editor.ask("text_document_rename", lsp.RenameParams(**editor.place(friends, "age > 30"), new_name="years"))
    texts = editor.apply(edit)

    assert sorted(texts) == ["friends.gq", "schema.pg", "workers.gq"]
    assert "years: I32?" in texts["schema.pg"]
    assert "@index(years)\n    @range(years, 0..150)" in texts["schema.pg"]
    assert "$q.years > 30" in texts["friends.gq"]
    assert "$p.years as age" in texts["workers.gq"]


def test_types_and_edges_keep_how_they_are_written(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)

    edit = editor.ask(
        "text_document_rename", lsp.RenameParams(**editor.place(friends, ":knows", after=1), new_name="likes")
    )
    texts = editor.apply(edit)

    assert "edge Likes: Person -> Person" in texts["schema.pg"]
    assert "$p $e:likes $q" in texts["friends.gq"]
    edit = editor.ask("text_document_rename", lsp.RenameParams(**editor.place(friends, "Person"), new_name="Human"))
    texts = editor.apply(edit)
    assert "edge Knows: Human -> Human" in texts["schema.pg"]
    assert "$p: Human\n" in texts["workers.gq"]


def test_the_source_of_an_embedding_is_renamed_inside_its_quotes(editor: Editor, folder: Path) -> None:
    open_all(editor, folder)
    schema = f"{folder}/schema.pg"

    edit = editor.ask(
        "text_document_rename", lsp.RenameParams(**editor.place(schema, "text: String"), new_name="words")
    )

    assert 'words: String\n    vec: Vector(4)? @embed("words")' in editor.apply(edit)["schema.pg"]


def test_a_variable_is_renamed_in_its_query_only(editor: Editor, folder: Path) -> None:
    name = f"{folder}/q.gq"
    editor.open(name, FRIENDS + "\n" + FRIENDS.replace("friends", "others"))

    edit = editor.ask(
        "text_document_rename", lsp.RenameParams(**editor.place(name, "$q.age", after=1), new_name="$other")
    )

    assert editor.apply(edit)["q.gq"].count("$other") == 3
    assert editor.apply(edit)["q.gq"].count("$q") == 3


@pytest.mark.parametrize(
    "mark, new, reason",
    [
        ("age > 30", "text", "`age` can't become `text`"),
        ("age > 30", "Years", "starts with a small letter"),
        ("age > 30", "a b", "is made of the letters"),
        ("Person", "Company", "`Person` can't become `Company`"),
        ("$q.age", "p", "there is already a `$p`"),
        ("$q.age", "name", "`$name` is a parameter"),
        ("> 30", "x", "there is no name here"),
    ],
)
def test_a_rename_that_would_break_something_is_refused(
    editor: Editor, folder: Path, mark: str, new: str, reason: str
) -> None:
    friends, _ = open_all(editor, folder)
    after = 1 if mark.startswith("$") else 0

    with pytest.raises(JsonRpcException) as caught:
        editor.ask("text_document_rename", lsp.RenameParams(**editor.place(friends, mark, after=after), new_name=new))

    assert reason in str(caught.value)


def test_a_rename_is_refused_beside_a_file_that_can_not_be_read(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)
    unreadable = editor.folder / folder / "latin.gq"
    unreadable.write_bytes('query q() { match { $p: Person { name: "é" } } return { $p } }'.encode("latin-1"))

    try:
        with pytest.raises(JsonRpcException, match=r"`age` may be used in a file that is not read: latin\.gq"):
            editor.ask("text_document_rename", lsp.RenameParams(**editor.place(friends, "age > 30"), new_name="years"))
    finally:
        unreadable.unlink()


def test_broken_text_in_the_middle_leaves_the_rest_alive(editor: Editor, folder: Path) -> None:
    name = f"{folder}/q.gq"
    broken = FRIENDS.replace("friends", "broken").replace("$p $e:knows $q", "$p $e:knows (((").replace("age", "mood")
    text = f"{FRIENDS}\n{broken}\n{WORKERS}"

    found = [each for each in editor.open(name, text) if each.severity is lsp.DiagnosticSeverity.Error]

    first, last = FRIENDS.count("\n"), (FRIENDS + broken).count("\n") + 1
    assert found
    assert all(first < each.range.start.line < last for each in found)
    hover = editor.ask("text_document_hover", lsp.HoverParams(**editor.place(name, "$c.city", after=1)))
    assert "$c: Company" in hover.contents.value
    edit = editor.ask("text_document_rename", lsp.RenameParams(**editor.place(name, 'city = "Ulm"'), new_name="town"))
    assert '$c.town = "Ulm"' in editor.apply(edit)["q.gq"]
    # What the broken query means by `mood` nobody can tell.
    params = lsp.RenameParams(**editor.place(f"{folder}/schema.pg", "mood"), new_name="humor")
    with pytest.raises(JsonRpcException, match="it is not clear what `mood` means in q"):
        editor.ask("text_document_rename", params)


def test_formatting_is_one_small_edit(editor: Editor, folder: Path) -> None:
    name = f"{folder}/q.gq"
    formatted = format_source(Source(FRIENDS), Language.QUERY).value
    editor.open(name, formatted.replace("$q.age > 30", "$q.age> 30 // 😀"))
    params = lsp.DocumentFormattingParams(
        lsp.TextDocumentIdentifier(editor.uri(name)), lsp.FormattingOptions(tab_size=4, insert_spaces=True)
    )

    edits = editor.ask("text_document_formatting", params)

    assert [(editor.slice(editor.uri(name), each.range), each.new_text) for each in edits] == [("", " ")]
    editor.edit(name, "match {", "match (")
    assert editor.ask("text_document_formatting", params) is None


@pytest.mark.parametrize(
    "old, new, title, wanted",
    [
        ("$q.age", "$q.aeg", "Change to `age`", "$q.age"),
        ("Person", "Persn", "Change to `Person`", "$p: Person"),
        ("match {", "find {", "Change to `match`", "match {"),
        ("String)", "Sting)", "Change to `String`", "String)"),
        ("order { friend }", "order { friends }", "Change to `friend`", "order { friend }"),
        (" as since }", " as since }\n}", "Delete `}`", " as since }\n"),
    ],
)
def test_help_lines_become_actions(editor: Editor, folder: Path, old: str, new: str, title: str, wanted: str) -> None:
    name = f"{folder}/q.gq"
    found = editor.open(name, FRIENDS.replace(old, new, 1))
    assert found, "there is a mistake"
    params = lsp.CodeActionParams(
        lsp.TextDocumentIdentifier(editor.uri(name)), found[0].range, lsp.CodeActionContext(found)
    )

    actions = editor.ask("text_document_code_action", params)

    assert title in [action.title for action in actions], [each.message for each in found]
    action = next(action for action in actions if action.title == title)
    assert wanted in editor.apply(action.edit)["q.gq"]


def test_an_index_is_added_to_the_schema(editor: Editor, folder: Path) -> None:
    name = f"{folder}/q.gq"
    found = editor.open(name, WORKERS)
    assert [each.code for each in found] == ["L204"]
    params = lsp.CodeActionParams(
        lsp.TextDocumentIdentifier(editor.uri(name)), found[0].range, lsp.CodeActionContext(found)
    )

    actions = editor.ask("text_document_code_action", params)

    assert [action.title for action in actions] == ["Add `@index(city)` to `Company`"]
    assert 'it is.")\n    @index(city)\n}' in editor.apply(actions[0].edit)["schema.pg"]


def test_the_outline_of_both_languages(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)

    def outline(name: str) -> list[tuple[str, list[str]]]:
        params = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(editor.uri(name)))
        found = editor.ask("text_document_document_symbol", params)
        return [(each.name, [child.name for child in each.children or ()]) for each in found]

    assert outline(friends) == [("friends", [])]
    assert outline(f"{folder}/schema.pg")[1:3] == [
        ("Person", ["age", "mood", "text", "vec"]),
        ("Company", ["city"]),
    ]


def test_semantic_tokens_say_what_names_mean(editor: Editor, folder: Path) -> None:
    friends, _ = open_all(editor, folder)
    provider = editor.capabilities.semantic_tokens_provider
    assert provider is not None
    legend = provider.legend.token_types
    text = editor.texts[editor.uri(friends)]

    params = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(editor.uri(friends)))
    data = editor.ask("text_document_semantic_tokens_full", params).data

    line = column = 0
    found = []
    for start in range(0, len(data), 5):
        column = data[start + 1] + (column if data[start] == 0 else 0)
        line += data[start]
        at = text.offset(lsp.Position(line, column))
        found.append((text.value[at : at + data[start + 2]], legend[data[start + 3]]))
    assert found[:4] == [("query", "keyword"), ("friends", "function"), ("$name", "parameter"), ("String", "class")]
    assert ("knows", "class") in found
    assert ("age", "property") in found
    assert ("friend", "property") in found
