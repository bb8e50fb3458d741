"""What two branches added alike, each for itself: types and properties of one name that say the same."""

from dataclasses import replace

from omnigraph.schema.aliases import Aliases
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.type_forms import PropertyForm, TypeForm, build_forms


def find_shared_additions(base: Catalog, ours: Catalog, theirs: Catalog) -> Aliases:
    """Types and properties that both sides added under one name and alike: by the larger identity, the smaller one."""
    before, mine, others = build_forms(base), build_forms(ours), build_forms(theirs)
    same: dict[int, int] = {}
    new = {form.name: identity for identity, form in mine.items() if identity not in before}
    for identity, form in others.items():
        twin = new.get(form.name)
        if identity in before or identity in mine or twin is None or twin in others:
            continue
        if _serialize_type(ours, form.name) == _serialize_type(theirs, form.name):
            same |= _build_alias(twin, identity)
            known = {p.name: one for one, p in mine[twin].properties.items()}
            for one, p in form.properties.items():
                same |= _build_alias(known[p.name], one)
    for identity, form in others.items():
        if identity in mine:
            base_form = before.get(identity)
            same |= _find_shared_properties(base_form, mine[identity], form)
    return same


def _find_shared_properties(base: TypeForm | None, mine: TypeForm, other: TypeForm) -> dict[int, int]:
    """The properties that both sides added to a type, under one name and alike."""
    known = frozenset(() if base is None else base.properties)
    new = {p.name: one for one, p in mine.properties.items() if one not in known and one not in other.properties}
    found: dict[int, int] = {}
    for one, p in other.properties.items():
        twin = new.get(p.name)
        if twin is None or one in known or one in mine.properties:
            continue
        if _serialize_property(mine.properties[twin], mine) == _serialize_property(p, other):
            found |= _build_alias(twin, one)
    return found


def _build_alias(one: int, other: int) -> dict[int, int]:
    return {} if one == other else {max(one, other): min(one, other)}


def _serialize_property(p: PropertyForm, owner: TypeForm) -> str:
    """What a property says, with the source of its embedding by name."""
    source = None if p.embedding is None else owner.properties[int(p.embedding[0])].name
    model = None if p.embedding is None else p.embedding[1]
    return repr((replace(p, embedding=None, renamed_from=None), source, model))


def _serialize_type(catalog: Catalog, name: str) -> str:
    """What a type says, without identities and what it was once called."""
    type_: AnyType | None = catalog.find_type(name)
    assert type_ is not None  # noqa: S101 - the name is from this catalog
    properties = sorted((replace(p, identity=0, renamed_from=None) for p in type_.properties), key=lambda p: p.name)
    ordered = replace(
        type_,
        identity=0,
        renamed_from=None,
        properties=tuple(properties),
        unique=tuple(sorted(tuple(sorted(columns)) for columns in type_.unique)),
        indexed=tuple(sorted(type_.indexed)),
        ranges=tuple(sorted(type_.ranges, key=repr)),
        checks=tuple(sorted(type_.checks, key=repr)),
    )
    return repr(ordered)
