"""The text that a catalog is written as says what the catalog says."""

from hypothesis import given, settings

from omnigraph.schema.catalog_printer import print_catalog
from omnigraph.schema.migration_planner import plan_migration
from schema_making import catalog_from, schema_texts

EVERYTHING = r"""
interface Named { name: String @index @description("what it's \"called\"")  code: I32? @unique }
node Person @description("somebody") @color("red", shade=3) implements Named @instruction("be kind") {
  age: U64? @default(7)
  big: I64 @default(-9007199254740993)
  rate: F32 @default(0.1)
  zero: F64 @default(-0.0)
  none: String? @default(null)
  mood: enum(calm, very-glad) @default("calm")
  day: Date? @default(date("2020-02-29"))
  time: DateTime? @default(datetime("2020-02-29T01:02:03.5+01:00"))
  flags: [Bool] @default([true, false])
  vec: Vector(2)? @embed("bio", model="m-1")
  bio: String? @rename_from("text") @plain @word(bare)
  pic: Blob? @default("base64:AA==")
  @key(name, age_of)
  age_of: I32
  @unique(day, mood)
  @index(bio)
  @range(age, ..9)
  @range(rate, -0.5..1.5)
  @range(day, date("2000-01-01")..)
  @check(bio, "^\\w+\"$")
  @check(bio, "x")
}
node Lone {}
edge Knows: Person -> Lone @card(1..2) @description("line\nbreak") { since: Date  @key(src, dst, since) @unique(src) }
edge Bare: Lone -> Lone
"""


def test_binding_the_text_gives_the_catalog_again() -> None:
    catalog = catalog_from(EVERYTHING)

    assert catalog_from(print_catalog(catalog)) == catalog


@settings(max_examples=30)
@given(schema_texts())
def test_any_schema_is_written_as_it_is(text: str) -> None:
    catalog = catalog_from(text)

    again = catalog_from(print_catalog(catalog))

    assert plan_migration(catalog, again).is_empty


def test_the_text_of_a_text_is_itself() -> None:
    once = print_catalog(catalog_from(EVERYTHING))

    assert print_catalog(catalog_from(once)) == once
