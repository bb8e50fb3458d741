"""What may be written at a position of a query: over the corpus, and in texts that are broken."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from corpus_format import Case, CaseFormatError, read_cases
from corpus_runner import accepted_catalog, check_queries, schema_of_case
from omnigraph.lang.lexer import Language, Token, TokenKind, tokenize
from omnigraph.lang.proposals import Completion, ProposalKind
from omnigraph.lang.source import Source
from omnigraph.query.completion import CommandArgument, KnownNames, complete
from omnigraph.schema.catalog import Catalog

CORPUS = Path(__file__).parent.parent / "corpus"
PEOPLE = accepted_catalog(
    """
    interface Named { name: String }
    node Person implements Named { age: I32?  mood: enum(glad, sad)?  born: Date?  @key(name) }
    node Company implements Named { founded: I32?  @key(name) }
    edge Knows: Person -> Person { since: I32? }
    edge WorksAt: Person -> Company { role: String? }
    """,
    "people",
)


def cases() -> list[Case]:
    found: list[Case] = []
    for folder in ("query", "reading", "mutation", "writing", "params"):
        for path in sorted((CORPUS / folder).glob("*.case")):
            try:
                found.extend(read_cases(path))
            except CaseFormatError:
                continue
    return found


def accepted_texts() -> Iterator[tuple[str, Catalog]]:
    """The texts of the corpus that are queries without a mistake, each with its schema."""
    for case in cases():
        texts = [case.blocks.get("query", ""), *(write.text for write in case.writes if write.mode is None)]
        for text in filter(None, texts):
            if len(text) > 4_000:
                continue
            catalog = accepted_catalog(schema_of_case(case), "schema")
            if check_queries(text, catalog).ok:
                yield text, catalog


@cache
def all_accepted() -> list[tuple[str, Catalog]]:
    return list(accepted_texts())


def texts_of(completion: Completion) -> list[str]:
    return [proposal.text for proposal in completion.proposals]


def at(text: str, known: KnownNames = KnownNames()) -> list[str]:  # noqa: B008 - it is immutable
    """What is proposed where `|` stands; the last one, since the language has it as a sign too."""
    before, _, after = text.rpartition("|")
    return texts_of(complete(before + after, len(before), PEOPLE, known))


# --- the corpus ------------------------------------------------------------------------------------------


def is_open(tokens: tuple[Token, ...], index: int, seen: set[str]) -> bool:
    """Whether any text could stand here: a value, a sign, or a name that is declared here."""
    token = tokens[index]
    before = tokens[index - 1].text if index else ""
    after = tokens[index + 1].text
    if token.kind not in (TokenKind.IDENT, TokenKind.TYPE, TokenKind.VARIABLE):
        return True
    if token.kind is TokenKind.VARIABLE:
        return token.text not in seen
    if before in ("as", "query", "pattern"):
        return True
    # A field of a record, or of a record type; a property of a binding is known, and is checked where it is.
    return after == ":" and before in ("{", ",")


def test_the_corpus_has_many_accepted_texts() -> None:
    assert len(all_accepted()) > 700


def test_the_next_token_of_an_accepted_text_is_proposed() -> None:
    missing: list[str] = []
    for text, catalog in all_accepted():
        tokens = tokenize(Source(text), Language.QUERY).tokens
        seen: set[str] = set()
        fields = {name.lower() for type_ in catalog.types for name in type_.by_name}
        for index, token in enumerate(tokens[:-1]):
            if token.text in ("query", "pattern") and tokens[index + 2].text == "(":
                seen = set()
            if not is_open(tokens, index, seen):
                completion = complete(text[: token.span.start], token.span.start, catalog)
                names = {proposal.text.lower().lstrip("@") for proposal in completion.proposals}
                is_field = index and tokens[index - 1].text == "." and token.text.lower() not in fields
                if token.text.lower() not in names and not is_field:
                    missing.append(f"{text[: token.span.start]}«{token.text}»")
            if token.kind is TokenKind.VARIABLE:
                seen.add(token.text)

    assert not missing, f"{len(missing)}:\n" + "\n---\n".join(missing[:12])


def test_a_word_is_proposed_from_each_of_its_beginnings() -> None:
    for text, catalog in all_accepted()[::20]:
        tokens = tokenize(Source(text), Language.QUERY).tokens
        for token in tokens[:-1]:
            if token.kind not in (TokenKind.IDENT, TokenKind.TYPE):
                continue
            here = texts_of(complete(text[: token.span.start], token.span.start, catalog))
            for position in range(token.span.start + 1, token.span.end + 1):
                completion = complete(text[:position], position, catalog)
                typed = text[token.span.start : position].lower()
                # The point before a meta property takes its `@` with it; everything else starts at the token.
                if completion.start == token.span.start:
                    assert texts_of(completion) == [name for name in here if name.lower().startswith(typed)]


def test_no_prefix_and_no_position_of_any_text_raises() -> None:
    for case in cases()[::20]:
        text = case.blocks.get("query", "")[:400]
        for position in range(0, len(text) + 1, 3):
            complete(text[:position], position, PEOPLE)
            complete(text, position, PEOPLE)


@pytest.mark.parametrize(
    "text", ["", "}}}", "((((", '"', "$", "@", ".", "/*", "//", "{" * 500, "\x00", "é", "query", "]"]
)
def test_nonsense_completes_to_something_or_nothing(text: str) -> None:
    completion = complete(text, len(text), PEOPLE)

    assert 0 <= completion.start <= completion.end <= len(text)
    assert complete(text, 10_000, PEOPLE) == completion


# --- by position -----------------------------------------------------------------------------------------


def test_a_text_begins_with_a_statement_or_a_stored_query() -> None:
    assert at("|", KnownNames(queries=("friends",)))[-1] == "friends"
    assert {"match", "insert", "update", "delete", "query", "pattern"} <= set(at("|"))
    assert at("ma|") == ["match"]


def test_a_colon_proposes_types() -> None:
    assert at("match { $p: |") == ["Person", "Company", "Named"]
    assert at("match { $p: Co|") == ["Company"]
    assert at("query q($n: |") == at("query q($n: String, $m: |")
    assert "DateTime" in at("query q($n: D|")


def test_a_point_proposes_the_properties_of_the_variable() -> None:
    assert at("match { $p: Company } return { $p.|") == ["name", "founded", "@id", "@type", "@src", "@dst"]
    assert at("match { $p: Company } return { $p.@|") == ["@id", "@type", "@src", "@dst"]
    assert at("match { $p: Person } return { $p.a| } order { $p.name }") == ["age"]


def test_properties_of_an_interface_are_those_of_its_types() -> None:
    assert at("match { $p: Named } return { $p.f|") == ["founded"]


def test_properties_that_all_types_have_come_first() -> None:
    assert at("query q() { match { $x: (Company|Person) $x.|")[0] == "name"


def test_a_record_proposes_its_fields() -> None:
    before = "query q($rows: [{name: String, age: I32?}]) { match { each $r in $rows $r.|"

    assert at(before) == ["name", "age"]


def test_a_variable_without_a_type_has_that_of_its_edge() -> None:
    assert "founded" in at("match { $p: Person $p worksAt $c } return { $c.|")
    assert at("match { $p: Person $p $e:worksAt $c } return { $e.r|") == ["role"]


def test_a_binding_after_the_position_counts() -> None:
    assert at("match { $p.| $p: Company } return { $p }")[:2] == ["name", "founded"]


def test_edges_fit_the_variable() -> None:
    assert [name for name in at("match { $c: Company $c |") if name in ("knows", "worksAt")] == ["worksAt"]
    assert at("match { $p: Person $p $e:|")[:2] == ["knows", "worksAt"]
    assert at("match { $p: Person $p (|") == ["knows", "worksAt"]


def test_enum_values_are_proposed_with_their_quotes() -> None:
    assert at("match { $p: Person $p.mood = |")[-1] != '"glad"'
    assert at('match { $p: Person { mood: "|') == ['"glad"', '"sad"']
    assert at('match { $p: Person $p.mood in ["glad", "s|') == ['"sad"']
    assert at('update Person set { mood: "g|') == ['"glad"']
    assert at('delete Person where mood = "|') == ['"glad"', '"sad"']
    assert at('match { $p: Person { name: "|') == []


def test_an_assignment_proposes_what_is_not_assigned() -> None:
    assert at('insert Person { name: "x", |') == ["age", "mood", "born"]
    assert at("insert Knows { |") == ["from", "to", "since"]
    assert at("match { $p: Person } update $p set { |")[0] == "name"


def test_a_mutation_names_properties_without_a_variable() -> None:
    assert at("delete Knows where s|")[0] == "since"
    assert {"from", "to"} <= set(at("delete Knows where |"))
    assert "set" in at("update Person |")


def test_conditions_on_the_way_name_properties() -> None:
    assert at("match { $a: Person $a knows{1,3} $b along { s|")[0] == "since"
    assert "founded" not in at("match { $a: Person $a knows{1,3} $b through { |")


def test_parts_follow_each_other() -> None:
    assert at("match { $p: Person } r|") == ["return", "returning"]
    assert at("match { $p: Person } return d|") == ["distinct"]
    assert at("match { $p: Person } return { $p } order { $p.age d|")[0] == "desc"
    assert "n" in at("match { $p: Person } return { count(*) as n } order { |")


def test_the_names_of_another_query_are_none_of_this_one() -> None:
    text = "query a($x: String) { match { $y: Person } return { $y } } query b($z: String) { match { |"

    variables = [name for name in at(text) if name.startswith("$")]

    assert variables == ["$z"]


def test_a_broken_part_before_the_position_does_no_harm() -> None:
    assert at("match { $p: Person ??? ( } return { $p.ag|") == ["age"]
    assert at("match { $p: Company } return { $p., sum( } order { $p.f|") == ["founded"]
    assert "Person" in at("query q( { match { $p: |")


def test_nothing_is_proposed_in_comments_and_strings() -> None:
    assert at("match { // $p: |") == []
    assert at("match { /* $p: |") == []
    assert at('match { $p: Person { name: "a |') == []
    assert at("match { /* done */ $p: |") == ["Person", "Company", "Named"]


def test_the_word_under_the_position_is_replaced_whole() -> None:
    completion = complete("match { $p: Perxx }", len("match { $p: Per"), PEOPLE)

    assert (completion.start, completion.end) == (len("match { $p: "), len("match { $p: Perxx"))
    assert texts_of(completion) == ["Person"]


def test_functions_are_proposed_with_their_usage() -> None:
    (proposal,) = complete("match { $p: Person } return { percen", 100, PEOPLE).proposals

    assert (proposal.text, proposal.kind) == ("percentile", ProposalKind.FUNCTION)
    assert proposal.detail == "percentile($v.property, 0.95)"


def test_commands_of_a_shell_complete_their_arguments() -> None:
    known = KnownNames(
        branches=("main", "review/x"),
        queries=("friends",),
        commands={
            ".use": CommandArgument.BRANCH,
            ".run": CommandArgument.QUERY,
            ".schema": CommandArgument.TYPE,
            ".explain": CommandArgument.STATEMENT,
            ".timer": CommandArgument.NOTHING,
        },
    )

    assert at(".u|", known) == [".use"]
    assert at(".use r|", known) == ["review/x"]
    assert at(".run |", known) == ["friends"]
    assert at(".schema P|", known) == ["Person"]
    assert at(".explain match { $p: C|", known) == ["Company"]
    assert at(".timer |", known) == []
    assert complete(".explain match { $p: C", 22, PEOPLE, known).start == 21
