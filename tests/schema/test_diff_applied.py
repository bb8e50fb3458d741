"""A plan says everything: its steps, applied one after the other to the old schema, give the new one."""

from dataclasses import replace
from itertools import groupby

from hypothesis import given, settings

from omnigraph.schema.catalog import AnyType, Cardinality, Catalog, CheckRule, EdgeType, NodeType, Property, RangeRule
from omnigraph.schema.catalog_codec import compute_fingerprint
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.migration_planner import plan_migration
from omnigraph.schema.migration_steps import IndexRule, KeyRule, MigrationPlan, Rule, Step, StepKind, UniqueRule
from schema_making import accepted, catalog_from, catalogs


class Applier:
    """An old schema that follows a plan; what a step brings along is looked up in the new schema.

    Unsupported changes are made as well, to see that nothing else is missing; only without them must each step be
    valid where it stands.
    """

    def __init__(self, old: Catalog, new: Catalog) -> None:
        self.is_strict = True
        self.types: dict[str, AnyType] = {**old.nodes, **old.edges}
        self.interfaces = dict(old.interfaces)
        self.new = new

    def run(self, plan: MigrationPlan) -> Catalog:
        self.is_strict = plan.is_supported
        for (kind, _), steps in groupby(plan.steps, key=lambda step: (step.kind, step.property_name and step.type)):
            if kind is StepKind.RENAME_TYPE:
                self.rename_types({step.previous or "": step.type for step in steps})
            elif kind is StepKind.RENAME_PROPERTY:
                together = list(steps)
                self.rename_properties(together[0].type, {s.previous or "": s.property_name or "" for s in together})
            else:
                for step in steps:
                    self.apply(step)
        return Catalog(
            nodes={name: t for name, t in self.types.items() if isinstance(t, NodeType)},
            edges={name: t for name, t in self.types.items() if isinstance(t, EdgeType)},
            interfaces=self.interfaces,
        )

    def target(self, name: str) -> AnyType:
        found = self.new.find_type(name)
        assert found is not None
        return found

    def rename_types(self, renames: dict[str, str]) -> None:
        staying = set(self.types) - set(renames)
        assert not staying & set(renames.values()), "a name is taken before it is free"
        moved = {
            renames.get(name, name): replace(t, name=renames[name], renamed_from=name) if name in renames else t
            for name, t in self.types.items()
        }
        for name, t in moved.items():
            if isinstance(t, EdgeType):
                source, target = renames.get(t.source, t.source), renames.get(t.target, t.target)
                moved[name] = replace(t, source=source, target=target)
        self.types = moved

    def rename_properties(self, name: str, renames: dict[str, str]) -> None:
        t = self.types[name]
        assert not (set(t.by_name) - set(renames)) & set(renames.values()), "a name is taken before it is free"

        def follow(column: str) -> str:
            return renames.get(column, column)

        def renamed(p: Property) -> Property:
            embedding = p.embedding and replace(p.embedding, source=follow(p.embedding.source))
            origin = p.name if p.name in renames else p.renamed_from
            return replace(p, name=follow(p.name), embedding=embedding, renamed_from=origin)

        self.types[name] = replace(
            t,
            properties=tuple(renamed(p) for p in t.properties),
            key=tuple(map(follow, t.key)),
            unique=tuple(tuple(map(follow, columns)) for columns in t.unique),
            indexed=tuple(map(follow, t.indexed)),
            ranges=tuple(replace(rule, property=follow(rule.property)) for rule in t.ranges),
            checks=tuple(replace(rule, property=follow(rule.property)) for rule in t.checks),
        )

    def apply(self, step: Step) -> None:
        if step.table is None:
            self.set_interface(step.type)
        elif step.code == "OG-MF-109":
            pass  # what has the `@rename_from` is added by a step of its own
        elif step.kind is StepKind.DROP_TYPE:
            dropped = self.types.pop(step.type)
            ends = {end for t in self.types.values() if isinstance(t, EdgeType) for end in (t.source, t.target)}
            is_needed = isinstance(dropped, NodeType) and dropped.name in ends
            assert not (is_needed and self.is_strict), "an edge is left without its end"
        elif step.kind is StepKind.ADD_TYPE:
            added = self.target(step.type)
            assert step.type not in self.types, "a name is taken before it is free"
            assert isinstance(added, NodeType) or {added.source, added.target} <= set(self.types)
            self.types[step.type] = added
        elif step.property_name is not None and step.rule is None:
            self.types[step.type] = self.with_property(self.types[step.type], step.property_name, step)
        else:
            self.types[step.type] = self.with_type_change(self.types[step.type], step)

    def set_interface(self, name: str) -> None:
        if name in self.new.interfaces:
            self.interfaces[name] = self.new.interfaces[name]
        else:
            del self.interfaces[name]

    def with_property(self, t: AnyType, name: str, step: Step) -> AnyType:
        if step.kind is StepKind.DROP_PROPERTY:
            assert not (name in t.key and self.is_strict), "a key is left without its column"
            assert not [columns for columns in t.unique if name in columns and len(columns) > 1]
            return replace(
                t,
                properties=tuple(p for p in t.properties if p.name != name),
                unique=tuple(columns for columns in t.unique if name not in columns),
                indexed=tuple(column for column in t.indexed if column != name),
                ranges=tuple(rule for rule in t.ranges if rule.property != name),
                checks=tuple(rule for rule in t.checks if rule.property != name),
            )
        wanted = self.target(t.name).by_name[name]
        if name not in t.by_name:
            assert step.kind is StepKind.ADD_PROPERTY or step.code == "OG-MF-103"
            return replace(t, properties=(*t.properties, wanted))
        changed = self.changed(t.by_name[name], wanted, step)
        return replace(t, properties=tuple(changed if p.name == name else p for p in t.properties))

    def changed(self, p: Property, wanted: Property, step: Step) -> Property:
        if step.kind is StepKind.EXTEND_ENUM or step.code == "OG-MF-106":
            return replace(p, type=wanted.type)
        if step.kind is StepKind.RELAX_NULLABILITY or step.code == "OG-MF-104":
            return replace(p, nullable=wanted.nullable)
        assert step.kind is StepKind.UPDATE_METADATA
        for change in step.changes:
            match change.aspect:
                case "order of enum values":
                    p = replace(p, type=wanted.type)
                case "default":
                    p = replace(p, has_default=wanted.has_default, default=wanted.default)
                case "embed":
                    p = replace(p, embedding=wanted.embedding)
                case "description":
                    p = replace(p, description=wanted.description)
                case "annotations":
                    p = replace(p, annotations=wanted.annotations)
                case "rename_from":
                    p = replace(p, renamed_from=wanted.renamed_from)
                case _:
                    raise AssertionError(change)
        return p

    def with_type_change(self, t: AnyType, step: Step) -> AnyType:
        if step.rule is not None:
            add = step.kind is not StepKind.DROP_CONSTRAINT
            return with_rule(t, step.rule) if add else without_rule(t, step.rule)
        wanted = self.target(t.name)
        if step.kind is StepKind.UNSUPPORTED_CHANGE:
            if any(isinstance(side, dict) and side.get("kind") == "key" for side in step.details.values()):
                return replace(t, key=wanted.key)
            assert isinstance(t, EdgeType)
            assert isinstance(wanted, EdgeType)
            return replace(t, source=wanted.source, target=wanted.target)
        assert step.kind is StepKind.UPDATE_METADATA
        for change in step.changes:
            match change.aspect:
                case "description" | "instruction" | "annotations" | "implements":
                    t = replace(t, **{change.aspect: getattr(wanted, change.aspect)})
                case "rename_from":
                    t = replace(t, renamed_from=wanted.renamed_from)
                case "order of properties":
                    t = replace(t, properties=tuple(t.by_name[p.name] for p in wanted.properties))
                case _:
                    raise AssertionError(change)
        return t


def with_rule(t: AnyType, rule: Rule) -> AnyType:
    match rule:
        case KeyRule(columns=columns):
            assert not t.key
            return replace(t, key=columns)
        case UniqueRule(columns=columns):
            return replace(t, unique=(*t.unique, columns))
        case IndexRule(property=name):
            return replace(t, indexed=(*t.indexed, name))
        case RangeRule():
            return replace(t, ranges=(*(r for r in t.ranges if r.property != rule.property), rule))
        case CheckRule():
            return replace(t, checks=(*t.checks, rule))
        case Cardinality():
            assert isinstance(t, EdgeType)
            return replace(t, cardinality=rule)


def without_rule(t: AnyType, rule: Rule) -> AnyType:
    match rule:
        case KeyRule(columns=columns):
            assert t.key == columns
            return replace(t, key=())
        case UniqueRule(columns=columns):
            assert columns in t.unique
            return replace(t, unique=tuple(other for other in t.unique if other != columns))
        case IndexRule(property=name):
            assert name in t.indexed
            return replace(t, indexed=tuple(other for other in t.indexed if other != name))
        case RangeRule():
            assert rule in t.ranges
            return replace(t, ranges=tuple(other for other in t.ranges if other != rule))
        case CheckRule():
            assert rule in t.checks
            return replace(t, checks=tuple(other for other in t.checks if other != rule))
        case Cardinality():
            raise AssertionError(rule)


@settings(max_examples=150)
@given(catalogs(), catalogs())
def test_the_steps_applied_in_order_give_the_new_schema(before: Catalog, new: Catalog) -> None:
    old = assign_identities(before, None)

    result = Applier(old, new).run(plan_migration(old, new))

    assert compute_fingerprint(result) == compute_fingerprint(new)


@settings(max_examples=80)
@given(catalogs(), catalogs())
def test_a_plan_is_empty_exactly_when_the_schemas_say_the_same(old: Catalog, new: Catalog) -> None:
    assert plan_migration(old, old).is_empty
    assert plan_migration(old, new).is_empty == (compute_fingerprint(old) == compute_fingerprint(new))


@settings(max_examples=50)
@given(catalogs(), catalogs())
def test_a_second_plan_has_nothing_left_to_do(before: Catalog, new: Catalog) -> None:
    old = assign_identities(before, None)
    applied = assign_identities(new, old)

    assert plan_migration(applied, new).is_empty
    assert assign_identities(new, applied) == applied


@settings(max_examples=50)
@given(catalogs(), catalogs())
def test_a_plan_drops_exactly_the_identities_that_go(before: Catalog, new: Catalog) -> None:
    old = assign_identities(before, None)
    applied = assign_identities(new, old)

    steps = plan_migration(old, new).steps
    dropped = {step.type for step in steps if step.kind is StepKind.DROP_TYPE}

    living = {t.identity for t in (*applied.nodes.values(), *applied.edges.values())}
    assert dropped == {t.name for t in (*old.nodes.values(), *old.edges.values()) if t.identity not in living}


def test_a_swap_of_types_with_everything_else_applied() -> None:
    old = accepted("node A { x: I32  y: I32 } node B { z: I32? } edge E: A -> B")
    new = catalog_from("""
        node A @rename_from("B") { z: I32? }
        node B @rename_from("A") { x: I32 @rename_from("y")  y: I32 @rename_from("x") }
        edge E: B -> A
    """)

    plan = plan_migration(old, new)

    assert plan.is_supported
    assert compute_fingerprint(Applier(old, new).run(plan)) == compute_fingerprint(new)
