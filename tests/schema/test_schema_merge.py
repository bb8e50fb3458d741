"""Schemas that grew apart, merged: additions come together, and what both changed is named."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from omnigraph.schema.catalog import AnyType, Catalog, Property, build_catalog
from omnigraph.schema.catalog_codec import compute_fingerprint, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.schema_merge import MergedSchema, merge_schemas
from omnigraph.schema.type_merge import SchemaConflict, SideNames
from schema_making import accepted, catalog_from, schema_texts

NAMES = SideNames("main", "dev")
BASE = """
interface Named { name: String }
node Person implements Named {
  age: I32?
  bio: String?
  mood: enum(calm, glad)?
  vec: Vector(2)?
  @key(name)
}
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Lives: Person -> City @card(0..5)
"""


def on_branch(old: Catalog, text: str, first: int) -> Catalog:
    """A schema that a branch went on with, whose new numbers start at a place of its own."""
    return assign_identities(catalog_from(text), old, first=first)


def merged(ours: str, theirs: str, base: str = BASE) -> MergedSchema | tuple[SchemaConflict, ...]:
    old = accepted(base)
    return merge_schemas(old, on_branch(old, ours, 1000), on_branch(old, theirs, 2000), NAMES)


def agreed(ours: str, theirs: str) -> Catalog:
    found = merged(ours, theirs)
    assert isinstance(found, MergedSchema), found
    return found.catalog


def changed(old: str, new: str, text: str = BASE) -> str:
    assert old in text
    return text.replace(old, new)


RANK = changed("age: I32?", "age: I32?\n  rank: F64 @default(1.5)")
NICK = changed("age: I32?", "age: I32?\n  nick: String? @index")
TEAM = BASE + "node Team { title: String @key }\nedge In: Person -> Team\n"
CLUB = BASE + "node Club { title: String @key }\n"
YEARS = changed("age: I32?", 'years: I32? @rename_from("age")')
HUMAN = BASE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')


@pytest.mark.parametrize(
    "ours, theirs, together",
    [
        (RANK, NICK, changed("age: I32?", "age: I32?\n  rank: F64 @default(1.5)\n  nick: String? @index")),
        (TEAM, CLUB, TEAM + "node Club { title: String @key }\n"),
        (RANK, TEAM, TEAM.replace("age: I32?", "age: I32?\n  rank: F64 @default(1.5)")),
        (
            changed("enum(calm, glad)", "enum(calm, glad, sad)"),
            changed("enum(calm, glad)", "enum(calm, glad, cross)"),
            changed("enum(calm, glad)", "enum(calm, glad, cross, sad)"),
        ),
        (
            changed("bio: String?", "bio: String? @index"),
            changed("  @key(name)", "  @key(name)\n  @unique(bio)\n  @range(age, 0..9)"),
            changed("bio: String?", "bio: String? @index").replace(
                "  @key(name)", "  @key(name)\n  @unique(bio)\n  @range(age, 0..9)"
            ),
        ),
        (YEARS, RANK, YEARS.replace("years: I32?", "years: I32?\n  rank: F64 @default(1.5)")),
        (HUMAN, RANK, HUMAN.replace("age: I32?", "age: I32?\n  rank: F64 @default(1.5)")),
        (HUMAN, YEARS, HUMAN.replace("age: I32?", 'years: I32? @rename_from("age")')),
        (changed("  bio: String?\n", ""), RANK, changed("  bio: String?\n", "", RANK)),
        (
            changed("edge Knows: Person -> Person { since: I32? }\n", ""),
            RANK,
            changed("edge Knows: Person -> Person { since: I32? }\n", "", RANK),
        ),
        (
            changed("@card(0..5)", "@card(0..9)"),
            changed("since: I32?", "since: I32?  until: I32?"),
            changed("@card(0..5)", "@card(0..9)").replace("since: I32?", "since: I32?  until: I32?"),
        ),
        (
            YEARS,
            changed("  @key(name)", "  @key(name)\n  @range(age, 0..9)"),
            YEARS.replace("  @key(name)", "  @key(name)\n  @range(years, 0..9)"),
        ),
        (
            changed("bio: String?", 'text: String? @rename_from("bio")'),
            changed("vec: Vector(2)?", 'vec: Vector(2)? @embed("bio")'),
            changed("bio: String?", 'text: String? @rename_from("bio")').replace(
                "vec: Vector(2)?", 'vec: Vector(2)? @embed("text")'
            ),
        ),
    ],
)
def test_what_each_side_did_comes_together(ours: str, theirs: str, together: str) -> None:
    catalog = agreed(ours, theirs)

    left = plan_migration(catalog, catalog_from(together))
    assert [step for step in left.steps if not _is_order(step.message)] == []


def _is_order(message: str) -> bool:
    return message.startswith(("update order of properties", "update rename_from"))


@pytest.mark.parametrize("ours, theirs", [(RANK, NICK), (TEAM, CLUB), (RANK, RANK), (TEAM, TEAM), (HUMAN, YEARS)])
def test_which_side_is_which_makes_no_difference(ours: str, theirs: str) -> None:
    old = accepted(BASE)
    mine, others = on_branch(old, ours, 1000), on_branch(old, theirs, 2000)

    one, other = merge_schemas(old, mine, others, NAMES), merge_schemas(old, others, mine, NAMES)

    assert isinstance(one, MergedSchema)
    assert isinstance(other, MergedSchema)
    assert encode_catalog(one.catalog) == encode_catalog(other.catalog)
    assert one.aliases == other.aliases


def test_everything_keeps_its_identity() -> None:
    old = accepted(BASE)
    ours, theirs = on_branch(old, YEARS, 1000), on_branch(old, RANK, 2000)

    found = merge_schemas(old, ours, theirs, NAMES)

    assert isinstance(found, MergedSchema)
    person = found.catalog.nodes["Person"]
    assert person.by_name["years"].identity == old.nodes["Person"].by_name["age"].identity
    assert person.by_name["rank"].identity == theirs.nodes["Person"].by_name["rank"].identity


@pytest.mark.parametrize("text, count", [(RANK, 1), (TEAM, 3)])
def test_the_same_addition_on_both_sides_is_one(text: str, count: int) -> None:
    found = merged(text, text)

    assert isinstance(found, MergedSchema)
    assert compute_fingerprint(found.catalog) == compute_fingerprint(catalog_from(text))
    assert len(found.aliases) == count
    assert all(one >= 2000 > other >= 1000 for one, other in found.aliases.items())


@pytest.mark.parametrize(
    "ours, theirs, table, prop, said",
    [
        (RANK, changed("age: I32?", "age: I32?\n  rank: I64?"), "node:Person", "rank", "each have a `Person.rank`"),
        (TEAM, BASE + "node Team { size: I32 }\n", "node:Team", None, "each have a `Team`"),
        (
            YEARS,
            changed("age: I32?", 'old: I32? @rename_from("age")'),
            "node:Person",
            "age",
            "the name of `Person.age`",
        ),
        (
            changed("  @key(name)", "  @key(name)\n  @range(age, 0..9)"),
            changed("  @key(name)", "  @key(name)\n  @range(age, 0..8)"),
            "node:Person",
            "age",
            "the range of `Person.age`",
        ),
        (
            changed("@card(0..5)", "@card(0..6)"),
            changed("@card(0..5)", "@card(0..7)"),
            "edge:Lives",
            None,
            "cardinality",
        ),
        (
            changed("  bio: String?\n", ""),
            changed("bio: String?", 'bio: String? @description("x")'),
            "node:Person",
            "bio",
            "`main` dropped `Person.bio`, and `dev` changed it",
        ),
        (
            changed("  bio: String?\n", ""),
            changed("  @key(name)", "  @key(name)\n  @unique(bio)"),
            "node:Person",
            "bio",
            "new use of it",
        ),
        (
            changed("  bio: String?\n", ""),
            changed("vec: Vector(2)?", 'vec: Vector(2)? @embed("bio")'),
            "node:Person",
            "bio",
            "new use of it",
        ),
        (
            changed("edge Knows: Person -> Person { since: I32? }\n", ""),
            changed("since: I32?", "since: I32?  until: I32?"),
            "edge:Knows",
            None,
            "`main` dropped `Knows`",
        ),
        (
            changed("node City { name: String @key }\n", "").replace("edge Lives: Person -> City @card(0..5)\n", ""),
            BASE + "edge Owns: Person -> City\n",
            "edge:Owns",
            None,
            "ends at `City`",
        ),
        (
            YEARS,
            changed("  bio: String?", "  bio: String?\n  years: I64?"),
            "node:Person",
            "years",
            "each have a `Person.years`",
        ),
        (
            changed("interface Named { name: String }", "interface Named { name: String  a: I32? }"),
            changed("interface Named { name: String }", "interface Named { name: String  b: I32? }"),
            "Named",
            None,
            "declaration",
        ),
        (
            BASE + "edge Sees: City -> City\n",
            BASE + "edge SEES: City -> City\n",
            "schema",
            None,
            "differ only in case",
        ),
    ],
)
def test_what_both_changed_is_named(ours: str, theirs: str, table: str, prop: str | None, said: str) -> None:
    found = merged(ours, theirs)

    assert isinstance(found, tuple)
    assert [(one.table, one.property) for one in found][:1] == [(table, prop)]
    assert said in found[0].message


def test_a_node_type_of_one_side_gets_what_the_other_gave_its_interface() -> None:
    wider = changed("interface Named { name: String }", "interface Named { name: String  code: I32? }")

    catalog = agreed(wider, BASE + "node Shop implements Named { }\n")

    assert catalog.nodes["Shop"].by_name["code"].nullable
    assert catalog.nodes["Shop"].by_name["code"].identity


def test_a_merge_again_with_the_number_of_before_finds_it() -> None:
    old = accepted(BASE)
    ours, theirs = on_branch(old, RANK, 1000), on_branch(old, RANK, 2000)
    first = merge_schemas(old, ours, theirs, NAMES)
    assert isinstance(first, MergedSchema)
    later = on_branch(theirs, RANK.replace("bio: String?", "bio: String?\n  more: I32?"), 3000)

    again = merge_schemas(theirs, first.catalog, later, NAMES)

    assert isinstance(again, MergedSchema), again


@settings(max_examples=25)
@given(schema_texts(), schema_texts(), schema_texts())
def test_a_merge_is_symmetric_and_what_it_gives_can_be_applied(base: str, one: str, other: str) -> None:
    old = accepted(base)
    ours, theirs = on_branch(old, one, 1000), on_branch(old, other, 2000)

    found, back = merge_schemas(old, ours, theirs, NAMES), merge_schemas(old, theirs, ours, SideNames("dev", "main"))

    if isinstance(found, MergedSchema):
        assert isinstance(back, MergedSchema)
        assert encode_catalog(found.catalog) == encode_catalog(back.catalog)
        assert compute_fingerprint(catalog_from(found.text)) == compute_fingerprint(found.catalog)
    else:
        assert not isinstance(back, MergedSchema)
        assert _sorted(found) == _sorted(back)


def _sorted(divergences: tuple[SchemaConflict, ...]) -> list[tuple[str, str, str]]:
    return sorted((one.table, one.property or "", one.message) for one in divergences)


@settings(max_examples=25)
@given(schema_texts(), schema_texts())
def test_with_a_side_that_changed_nothing_the_other_is_the_result(base: str, text: str) -> None:
    old = accepted(base)
    side = on_branch(old, text, 1000)

    found = merge_schemas(old, side, old, NAMES)

    assert isinstance(found, MergedSchema), found
    left = plan_migration(found.catalog, _unclaimed(side))
    assert [step for step in left.steps if not _is_order(step.message)] == []


def _unclaimed(catalog: Catalog) -> Catalog:
    """The catalog without earlier names: a plan would take them for renames that are still to be made."""
    nodes = tuple(replace(one, renamed_from=None, properties=_plain(one)) for one in catalog.nodes.values())
    edges = tuple(replace(one, renamed_from=None, properties=_plain(one)) for one in catalog.edges.values())
    return build_catalog(nodes, edges, tuple(catalog.interfaces.values()), catalog.next_identity)


def _plain(type_: AnyType) -> tuple[Property, ...]:
    return tuple(replace(p, renamed_from=None) for p in type_.properties)


# --- the text ---

WRITTEN = """// who we are

// people, and only these
node Person { // the main thing
  name: String @key  // as in the passport
  age: I32?
}
/* where they are */
node City { name: String @key } // by its name

// who knows whom
edge Knows: Person -> Person {
  since: I32? // a year
}
// the end
"""


def text_of(ours: str, theirs: str, base: str = WRITTEN) -> str:
    old = accepted(base)
    one, other = on_branch(old, ours, 1000), on_branch(old, theirs, 2000)
    found = merge_schemas(old, one, other, NAMES, (base, ours, theirs))
    back = merge_schemas(old, other, one, NAMES, (base, theirs, ours))
    assert isinstance(found, MergedSchema), found
    assert isinstance(back, MergedSchema), back
    assert found.text == back.text
    assert assign_identities(catalog_from(found.text), found.catalog) == found.catalog
    return found.text


def test_declarations_that_one_side_changed_keep_its_text() -> None:
    ours = changed("since: I32? // a year", "since: I32? // a year\n  how: String? // told by them", WRITTEN)
    theirs = changed("age: I32?", "age: I32?\n  nick: String? // what friends say", WRITTEN)

    assert text_of(ours, theirs) == changed("age: I32?", "age: I32?\n  nick: String? // what friends say", ours)


def test_types_that_both_added_come_behind_with_their_comments() -> None:
    ours = changed("// the end", "// teams\nnode Team { name: String @key } // all\n// the end", WRITTEN)
    theirs = changed("// the end", "// clubs\nnode Club { name: String @key }\n// the end", WRITTEN)

    assert text_of(ours, theirs) == changed(
        "// the end",
        "// teams\nnode Team { name: String @key } // all\n// clubs\nnode Club { name: String @key }\n// the end",
        WRITTEN,
    )


def test_a_declaration_that_both_changed_is_written_anew_behind_its_comment() -> None:
    ours = changed("since: I32? // a year", "since: I32? // a year\n  how: String?", WRITTEN)
    theirs = changed("since: I32? // a year", "since: I32? // a year\n  why: String?", WRITTEN)

    found = text_of(ours, theirs)

    head, _, declared = found.partition("// who knows whom\n")
    assert WRITTEN.startswith(head)
    assert declared.endswith("}\n// the end\n")
    assert "// a year" not in declared


def test_a_dropped_type_takes_its_comments_with_it() -> None:
    ours = WRITTEN.replace("/* where they are */\nnode City { name: String @key } // by its name\n", "")
    theirs = changed("age: I32?", "age: I32?\n  nick: String?", WRITTEN)

    assert text_of(ours, theirs) == ours.replace("age: I32?", "age: I32?\n  nick: String?")


def test_comments_alone_that_one_side_changed_come() -> None:
    ours = changed("// a year", "// the year in which they met", WRITTEN).replace("// who we are", "// all of us")
    theirs = changed("age: I32?", "age: I32?\n  nick: String?", WRITTEN)
    ours = ours.replace("name: String @key } // by", "name: String @key  area: F64? } // by")

    assert text_of(ours, theirs) == ours.replace("age: I32?", "age: I32?\n  nick: String?")


@settings(max_examples=30, deadline=None)
@given(base=schema_texts(), one=schema_texts(), other=schema_texts())
def test_a_merged_text_always_says_what_the_merged_catalog_says(base: str, one: str, other: str) -> None:
    old = accepted(base)
    ours, theirs = on_branch(old, one, 1000), on_branch(old, other, 2000)
    plain = merge_schemas(old, ours, theirs, NAMES)
    found = merge_schemas(old, ours, theirs, NAMES, (base, one, other))
    assert isinstance(found, MergedSchema) == isinstance(plain, MergedSchema)
    if isinstance(found, MergedSchema) and isinstance(plain, MergedSchema):
        assert found.catalog == plain.catalog
        assert assign_identities(catalog_from(found.text), found.catalog) == found.catalog
