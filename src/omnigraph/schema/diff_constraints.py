"""What becomes of constraints between two schemas, with the columns of both under one name."""

from collections.abc import Iterator, Mapping

from omnigraph.schema.catalog import AnyType, Cardinality, CheckRule, EdgeType, Property, RangeRule, Value
from omnigraph.schema.matching import Matched
from omnigraph.schema.migration_steps import DOES_NOT_HOLD, Step, StepKind, about
from omnigraph.schema.step_details import IndexOf, KeyOf, Rule, UniqueOf, from_to, rule_json, rule_text

_ENDS = {"src": "src", "dst": "dst"}


def constraints_dropped(old: AnyType, new: AnyType, properties: Matched[Property]) -> Iterator[Step]:
    """Steps for constraints that end, in old names; one on a dropped property alone ends with it and has no step."""
    names = {**properties.new_names, **_ENDS}
    if isinstance(new, EdgeType) and old.key and not new.key:
        yield _drop(new, KeyOf(old.key))
    kept_unique = {frozenset(columns) for columns in new.unique}
    for columns in old.unique:
        renamed = _renamed(columns, names)
        if renamed is None and len(columns) == 1:
            continue
        if renamed is None or frozenset(renamed) not in kept_unique:
            yield _drop(new, UniqueOf(columns))
    for name in old.indexed:
        if name in names and names[name] not in new.indexed:
            yield _drop(new, IndexOf(name))
    ranged = {rule.property for rule in new.ranges}
    for rule in old.ranges:
        if rule.property in names and names[rule.property] not in ranged:
            yield _drop(new, rule)
    for check in old.checks:
        renamed_to = names.get(check.property)
        if renamed_to is not None and CheckRule(property=renamed_to, pattern=check.pattern) not in new.checks:
            yield _drop(new, check)


def constraints_added(old: AnyType, new: AnyType, properties: Matched[Property]) -> Iterator[Step]:
    """Steps for constraints that begin or change, in new names; they validate unless no row can break them."""
    names = {**properties.new_names, **_ENDS}
    fresh = {p.name: p for p in properties.added}
    yield from _key(old, new, names)
    had_unique = {frozenset(renamed) for columns in old.unique if (renamed := _renamed(columns, names)) is not None}
    for columns in new.unique:
        if frozenset(columns) not in had_unique:
            # A row with a null in any member is exempt, and every row has one in a new column that nothing fills.
            is_exempt = any(name in fresh and fresh[name].default is None for name in columns)
            yield _add(new, UniqueOf(columns), validates=not is_exempt)
    had_index = {names[name] for name in old.indexed if name in names}
    for name in new.indexed:
        if name not in had_index:
            yield _add(new, IndexOf(name), validates=False)
    yield from _ranges(old, new, properties)
    had_checks = {(names[check.property], check.pattern) for check in old.checks if check.property in names}
    for check in new.checks:
        if (check.property, check.pattern) not in had_checks:
            yield _add(new, check, validates=check.property not in fresh)
    if isinstance(old, EdgeType) and isinstance(new, EdgeType):
        yield from _cardinality(old, new)


# --- each kind -----------------------------------------------------------------------------------------


def _key(old: AnyType, new: AnyType, names: Mapping[str, str]) -> Iterator[Step]:
    """A key is for good, because ids come from it; only an edge can lose one, since its ids stay what they are."""
    if _renamed(old.key, names) == new.key or (isinstance(new, EdgeType) and not new.key):
        return
    before, after = (f"`{rule_text(KeyOf(key))}`" if key else "no key" for key in (old.key, new.key))
    yield Step(
        kind=StepKind.UNSUPPORTED_CHANGE,
        type=new.name,
        table=new.table_key,
        code="OG-MF-106",
        facts=from_to(*(rule_json(KeyOf(key)) if key else None for key in (old.key, new.key))),
        message=f"{about(new)} has {before} and can't have {after}: its ids come from the key",
    )


def _ranges(old: AnyType, new: AnyType, properties: Matched[Property]) -> Iterator[Step]:
    fresh = {p.name for p in properties.added}
    before_of = {after.name: before for before, after in properties.pairs}
    had = {rule.property: rule for rule in old.ranges}
    for rule in new.ranges:
        before = before_of.get(rule.property)
        earlier = None if before is None else had.get(before.name)
        if earlier is None:
            yield _add(new, rule, validates=rule.property not in fresh)
        elif (earlier.low, earlier.high) != (rule.low, rule.high):
            is_same_type = before is not None and before.type == new.by_name[rule.property].type
            yield _add(new, rule, validates=not (is_same_type and _is_wider(rule, earlier)), instead_of=earlier)


def _is_wider(rule: RangeRule, earlier: RangeRule) -> bool:
    """Whether every value that `earlier` allows is allowed by `rule`."""
    low = rule.low is None or (earlier.low is not None and _at_most(rule.low, earlier.low))
    high = rule.high is None or (earlier.high is not None and _at_most(earlier.high, rule.high))
    return low and high


def _at_most(left: Value, right: Value) -> bool:
    return bool(left <= right)  # type: ignore[operator]  # both are bounds of one property, so of one ordered type


def _cardinality(old: EdgeType, new: EdgeType) -> Iterator[Step]:
    before, after = old.cardinality, new.cardinality
    if before == after:
        return
    is_wider = after.low <= before.low and (
        after.high is None or (before.high is not None and before.high <= after.high)
    )
    if is_wider:
        yield Step(
            kind=StepKind.WIDEN_CARDINALITY,
            type=new.name,
            table=new.table_key,
            rule=after,
            replaces=before,
            message=f"widen the cardinality of {about(new)} from {before} to {after}",
        )
    else:
        yield _add(new, after, validates=True, instead_of=before)


# --- steps -----------------------------------------------------------------------------------------


def _renamed(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns under their new names; None if one of them is gone."""
    return tuple(names[name] for name in columns) if all(name in names for name in columns) else None


def _add(type_: AnyType, rule: Rule, *, validates: bool, instead_of: Rule | None = None) -> Step:
    change = f" instead of `{rule_text(instead_of)}`" if instead_of is not None else ""
    scan = "; committed rows are checked first" if validates else ""
    return Step(
        kind=StepKind.ADD_CONSTRAINT,
        type=type_.name,
        table=type_.table_key,
        property_name=_only_property(rule),
        rule=rule,
        replaces=instead_of,
        code=DOES_NOT_HOLD if validates else None,
        validates=validates,
        message=f"add `{rule_text(rule)}` to {about(type_)}{change}{scan}",
    )


def _drop(type_: AnyType, rule: Rule) -> Step:
    return Step(
        kind=StepKind.DROP_CONSTRAINT,
        type=type_.name,
        table=type_.table_key,
        property_name=_only_property(rule),
        rule=rule,
        message=f"drop `{rule_text(rule)}` of {about(type_)}",
    )


def _only_property(rule: Rule) -> str | None:
    match rule:
        case KeyOf(columns=columns) | UniqueOf(columns=columns):
            return columns[0] if len(columns) == 1 and columns[0] not in _ENDS else None
        case IndexOf(property=name) | RangeRule(property=name) | CheckRule(property=name):
            return name
        case Cardinality():
            return None
