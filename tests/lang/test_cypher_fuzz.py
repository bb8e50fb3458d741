"""Broken statements of Cypher are refused with a finding: none crashes, hangs or is too deep."""

from pathlib import Path
from random import Random

import pytest

from corpus_format import read_cases
from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.source import Source
from omnigraph.query.cypher.bind import bind_cypher, infer_parameters
from schema_making import accepted

CORPUS = Path(__file__).parents[1] / "corpus"
CATALOG = accepted((CORPUS / "graphs" / "films.pg").read_text(encoding="utf-8"))
STATEMENTS = [case.blocks["cypher"] for path in sorted((CORPUS / "cypher").glob("*.case")) for case in read_cases(path)]
PIECES: tuple[str, ...] = (
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "-",
    "->",
    "*",
    "..",
    "|",
    ":",
    "$",
    "'",
    "`",
    "null",
    "[]",
    "WITH",
    "RETURN",
)
PIECES += ("MATCH", "WHERE", "UNWIND", "AS", "1", "0", "9223372036854775808", "n", "count(*)", "NOT", "=", "/", "\x00")
GIVEN = infer_parameters({"n": 1, "x": "a", "rows": [{"n": "Ann", "k": 1}], "names": ["a", None]})
DEPTH = 5_000


def mutate(random: Random, text: str) -> str:
    """Return a statement with parts taken out, repeated, swapped or put in."""
    words = text.split(" ")
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(words))
        match random.randrange(4):
            case 0:
                del words[at : at + random.randint(1, 3)]
            case 1:
                words[at:at] = words[at : at + 2]
            case 2:
                words.insert(at, random.choice(PIECES))
            case _:
                other = random.choice(STATEMENTS).split(" ")
                words[at:at] = other[: random.randint(1, 5)]
        words = words or [""]
    joined = " ".join(words)
    return joined if random.random() < 0.7 else joined[: random.randrange(len(joined) + 1)]


def check(text: str) -> bool:
    """Return whether a statement is accepted; a refused one has an error with a message."""
    source = Source(text)
    parsed = parse_cypher(source)
    if not parsed.ok:
        assert any(found.is_error and found.message for found in parsed.diagnostics), text
        return False
    bound = bind_cypher(parsed.tree, source, CATALOG, GIVEN)
    assert bound.value is not None or any(found.is_error for found in bound.diagnostics), text
    return bound.value is not None


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=[pytest.mark.soak, pytest.mark.timeout(3_600)]) for seed in range(1, 21))]
)
def test_broken_statements_are_refused_or_answered(seed: int) -> None:
    random = Random(seed)
    count = 800 if seed == 0 else 20_000

    accepted_count = sum(check(mutate(random, random.choice(STATEMENTS))) for _ in range(count))

    # Some mistakes leave a statement that means something else, most do not.
    assert 0 < accepted_count < count


@pytest.mark.parametrize(
    "text",
    [
        "RETURN " + "(" * DEPTH + "1" + ")" * DEPTH,
        "RETURN " + "[" * DEPTH + "]" * DEPTH,
        "RETURN " + "NOT " * DEPTH + "true",
        "RETURN " + "-" * DEPTH + "1",
        "RETURN " + "{a: " * DEPTH + "1" + "}" * DEPTH,
        "RETURN 1" + " + 1" * DEPTH,
        "RETURN 1" + " < 1" * DEPTH,
        "RETURN true" + " AND true" * DEPTH,
        "MATCH (a:" + "!" * DEPTH + "A) RETURN a",
        "MATCH (a)" + "-->()" * DEPTH + " RETURN a",
        "RETURN " + "EXISTS { MATCH (a) WHERE " * 300 + "true" + " }" * 300,
        "RETURN " + "CASE WHEN true THEN " * DEPTH + "1" + " END" * DEPTH,
        "UNWIND [1] AS x " * DEPTH + "RETURN 1",
        "RETURN 1 AS x" + " UNION RETURN 1 AS x" * DEPTH,
    ],
    ids=lambda text: text[:24],
)
def test_deep_and_long_statements_end(text: str) -> None:
    check(text)
