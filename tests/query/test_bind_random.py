"""Random queries out of the words of a schema: most are wrong somewhere, and none may surprise the binder."""

import random

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_query
from property_profiles import SOME_AND_MANY, profile
from query.reading import CATALOG, checked

PARAMS = "$s: String, $o: String?, $i: I64, $f: F32, $l: [String], $v: Vector(2), $d: DateTime, $b: Bool"
VARIABLES = st.sampled_from(["$a", "$b1", "$c", "$new"])
TYPES = st.sampled_from(["Person", "Person", "Company", "Named"])
EDGES = st.sampled_from(["knows", "knows", "worksAt", "livesIn", "basedIn", "knwos"])
PROPERTIES = st.sampled_from(["name", "name", "age", "visits", "seen", "status", "tags", "face", "bio", "role"])
SCALARS = st.sampled_from(
    [
        '"gone"',
        '"x"',
        "3",
        "2.7",
        "-1",
        "99999999999999999999",
        "true",
        "null",
        'date("2026-02-29")',
        'date("2026-02-28")',
    ]
)
LITERALS = SCALARS | st.lists(SCALARS, max_size=3).map(lambda items: f"[{', '.join(items)}]")
GIVEN = st.sampled_from(["$s", "$o", "$i", "$f", "$l", "$v", "$d", "$b", "now()"])
REFERENCES = st.builds("{}.{}".format, VARIABLES, PROPERTIES | st.sampled_from(["@id", "@src"]))
VALUES = LITERALS | GIVEN | REFERENCES | REFERENCES | VARIABLES
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "in", "contains", "starts_with"])
SEARCHES = st.builds(
    "{}({}, {})".format, st.sampled_from(["search", "match_text", "fuzzy", "nope"]), REFERENCES, VALUES
)
RANKS = st.builds("{}({}, {})".format, st.sampled_from(["nearest", "bm25"]), REFERENCES, VALUES)
FUSED = st.builds("rrf({}, {})".format, RANKS, RANKS)
AGGREGATES = st.builds("{}({})".format, st.sampled_from(["count", "sum", "min", "avg"]), VALUES | st.just("*"))
COMPARISONS = (
    st.builds("{} {} {}".format, VALUES, OPERATORS, VALUES)
    | st.builds("{} is not null".format, VALUES)
    | SEARCHES
    | st.builds("{} > 3".format, AGGREGATES | RANKS)
)
PREDICATES = st.recursive(
    COMPARISONS,
    lambda inner: st.builds("({} and {})".format, inner, inner) | st.builds("not ({} or {})".format, inner, inner),
    max_leaves=4,
)
BINDINGS = st.builds("{}: {} {{ {}: {} }}".format, VARIABLES, TYPES, PROPERTIES, LITERALS | GIVEN) | st.builds(
    "{}: {}".format, VARIABLES, TYPES
)
HOPS = st.builds("{} {} {}".format, VARIABLES, EDGES | st.builds("<{}>{{1,2}}".format, EDGES), VARIABLES) | st.builds(
    "{} $_:{} {}".format, VARIABLES, EDGES, VARIABLES
)
CLAUSES = st.recursive(
    BINDINGS | HOPS | PREDICATES,
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(lambda clauses: f"not {{ {'; '.join(clauses)} }}"),
    max_leaves=4,
)
OUTPUTS = VALUES | REFERENCES | AGGREGATES | RANKS | FUSED
COLUMNS = st.lists(OUTPUTS, min_size=1, max_size=2).map(
    lambda values: ", ".join(f"{value} as c{place}" for place, value in enumerate(values))
)
ORDERS = st.lists(OUTPUTS | st.sampled_from(["c0", "c1", "c0 desc"]), max_size=2).map(
    lambda keys: f"order {{ {', '.join(keys)} }}" if keys else ""
)
LIMITS = st.sampled_from(["", "", "limit 3", "limit $i", "limit $s"])


def query(clauses: list[str], tail: str) -> str:
    return f"query q({PARAMS}) {{ match {{ {'; '.join(clauses)} }} return {tail} }}"


TAILS = st.builds("{} {{ {} }} {} {}".format, st.sampled_from(["", "", "distinct"]), COLUMNS, ORDERS, LIMITS)


@SOME_AND_MANY
def test_a_query_has_a_plan_or_errors_and_never_both(examples: int) -> None:
    @profile(examples)
    @given(st.lists(CLAUSES, max_size=3), TAILS)
    def check(clauses: list[str], tail: str) -> None:
        text = query(["$a: Person", "$a $e:knows $b1", "$a worksAt $c", *clauses], tail)
        parsed = parse_queries(Source(text))
        for tree in parsed.tree.queries:
            result = bind_query(tree, CATALOG)

            assert (result.value is None) == (not result.ok)
            assert all(0 <= found.span.start < found.span.end <= len(text) for found in result.diagnostics)

    check()


@SOME_AND_MANY
def test_shuffled_clauses_have_the_same_errors(examples: int) -> None:
    @profile(examples)
    @given(st.lists(BINDINGS | PREDICATES, min_size=2, max_size=5), st.integers(0, 1000))
    def check(clauses: list[str], seed: int) -> None:
        shuffled = random.Random(seed).sample(clauses, len(clauses))

        first, second = (checked(query(order, "{ 1 as one }")) for order in (clauses, shuffled))

        assert (first.value is None) == (second.value is None)

    check()
