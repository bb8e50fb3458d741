"""Compile Cedar policies about rows, those whose action is `see`, into conditions over the values of a row.

The forms are those of `_check_expression`; a policy with any other is refused when it is loaded. What does not depend
on the row, such as the groups of the actor and the branch, is decided here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from omnigraph.policy import Actor
from omnigraph.row_rules import (
    FAILS,
    FALSE,
    TRUE,
    Always,
    Condition,
    HasValue,
    IsOneOf,
    IsTrue,
    IsType,
    Orders,
    RowRules,
    both,
    build_type_rules,
    either,
    negate,
)

SEE = "see"
ROW = "Row"
# The attribute of a row that has the name of its type.
TYPE = "type"
# Our rows are no entities with an id, so rules can only name what they are in.
_PLACES = ("Graph", "Branch")
_PRINCIPALS = ("Actor", "Group")
_ORDERS = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Json: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Entity:
    type: str
    id: str


@dataclass(frozen=True, slots=True)
class _Property:
    """A property of the row, whose value is not known here."""

    name: str


class _FailsError(Exception):
    """The value of an expression does not exist, so that the policy fails."""


# A set has each element with its type, because `True == 1` in Python.
_Known: TypeAlias = str | bool | int | _Entity | frozenset[tuple[str, Any]]
_Operand: TypeAlias = _Known | _Property


def names_see(policy: Json) -> bool:
    """Return whether a policy names the action `see`."""
    return SEE in list_actions(policy)


def applies_to_rows(policy: Json) -> bool:
    """Return whether a policy is about `see`, by name or because it is about every action."""
    return policy["action"]["op"] == "All" or names_see(policy)


def list_actions(policy: Json) -> list[str]:
    """Return the actions that a policy names; none if it is about every action."""
    return [entity["id"] for entity in _list_action_entities(policy)]


def _list_action_entities(policy: Json) -> list[Json]:
    action = policy["action"]
    entities: list[Json] = [action["entity"]] if "entity" in action else action.get("entities", [])
    return entities


def find_problem(policy: Json) -> str | None:
    """Return why a policy about rows can't be compiled, or None."""
    if names_see(policy) and any(name != SEE for name in list_actions(policy)):
        return "it names `see` beside other actions: write a policy of its own for `see`"
    if any(entity["type"] != "Action" for entity in _list_action_entities(policy)):
        return 'the action is `Action::"see"`'
    try:
        _check_scope(policy["principal"], _PRINCIPALS, "Actor")
        # A policy about every action may be about the branches themselves, which no row is.
        _check_scope(policy["resource"], _PLACES, *((ROW,) if names_see(policy) else (ROW, *_PLACES)))
        for condition in policy["conditions"]:
            _check_expression(condition["body"])
    except _RefusedError as error:
        return str(error)
    return None


class _RefusedError(Exception):
    """A policy has a form that can't be compiled."""


def _check_scope(scope: Json, entity_types: Sequence[str], *is_types: str) -> None:
    entities = [scope.get("entity"), scope.get("in", {}).get("entity")]
    for entity in entities:
        if entity is not None and entity["type"] not in entity_types:
            raise _RefusedError(f"`{entity['type']}` is none of {', '.join(entity_types)}")
    if scope["op"] == "is" and scope["entity_type"] not in is_types:
        raise _RefusedError(f"`{scope['entity_type']}` is none of {', '.join(is_types)}")
    if "slot" in scope:
        raise _RefusedError("a template can't be about rows")


def _check_expression(expr: Json) -> None:
    """Check that a condition has only forms that are compiled."""
    [(form, parts)] = expr.items()
    match form:
        case "&&" | "||":
            _check_expression(parts["left"])
            _check_expression(parts["right"])
        case "!":
            _check_expression(parts["arg"])
        case "Value" if isinstance(parts, bool):
            pass
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            _check_operand(parts["left"])
            _check_operand(parts["right"])
            if _reads_row(parts["left"]) and _reads_row(parts["right"]):
                raise _RefusedError("it compares two properties of a row; compare one with a value or an attribute")
        case "contains":
            _check_operand(parts["left"])
            _check_operand(parts["right"])
            if _reads_row(parts["left"]):
                raise _RefusedError("a property can't be a set: write `[…].contains(resource.property)`")
        case "in" | "is":
            _check_membership(form, parts)
        case "has" | ".":
            if list(parts["left"]) != ["Var"]:
                raise _RefusedError("attributes of attributes can't be read")
        case _:
            raise _RefusedError(f"`{form}` can't be decided for the rows of a table")


def _check_membership(form: str, parts: Json) -> None:
    variable = parts["left"].get("Var")
    if variable not in ("principal", "resource"):
        raise _RefusedError(f"only `principal` and `resource` can stand before `{form}`")
    allowed = _PRINCIPALS if variable == "principal" else _PLACES
    places = parts.get("in") if form == "is" else parts["right"]
    if form == "is" and parts["entity_type"] not in (*_PRINCIPALS, ROW, *_PLACES):
        raise _RefusedError(f"there is no type `{parts['entity_type']}`")
    if places is not None:
        for place in _list_entities(places):
            if place is None or place.type not in allowed:
                raise _RefusedError(f"after `{variable} in` stands one of {', '.join(allowed)}, by its name")


def _check_operand(expr: Json) -> None:
    [(form, parts)] = expr.items()
    match form:
        case "Value":
            if isinstance(parts, Mapping) and "__entity" not in parts:
                raise _RefusedError("it has a value that is no text, truth value, integer or name")
        case "Set":
            for element in parts:
                _check_operand(element)
                if _reads_row(element):
                    raise _RefusedError("a set can't have a property of the row as an element")
        case "Var":
            if parts in ("resource", "context"):
                raise _RefusedError(f"`{parts}` itself can't be compared: name one of its attributes")
        case ".":
            if list(parts["left"]) != ["Var"]:
                raise _RefusedError("attributes of attributes can't be read")
        case _:
            raise _RefusedError(f"`{form}` can't be an operand")


def _reads_row(expr: Json) -> bool:
    return "." in expr and expr["."]["left"] == {"Var": "resource"}


def _list_entities(expr: Json) -> list[_Entity | None]:
    return [_read_entity(element.get("Value")) for element in expr.get("Set", [expr])]


def _read_entity(value: object) -> _Entity | None:
    entity = value.get("__entity") if isinstance(value, Mapping) else None
    return None if entity is None else _Entity(entity["type"], entity["id"])


def compile_rules(
    policies: Sequence[Json], graph: str, actor: Actor, branch: str | None, query: str | None
) -> RowRules | None:
    """Return which rows of a branch an actor sees by these checked policies; None means all.

    Without a branch, a policy about some branch fails: a permit permits nothing, and a forbid forbids.
    """
    compiler = _Compiler(graph, actor, branch, query)
    rules: dict[str, list[Condition]] = {"permit": [], "forbid": []}
    for policy in policies:
        rules[policy["effect"]].append(compiler.compile(policy))
    folded = build_type_rules(rules["permit"], rules["forbid"])
    compiled = RowRules(folded.permits, folded.forbids)
    return None if compiled.is_everything_seen else compiled


class _Compiler:
    """Compile conditions for one actor on one branch."""

    def __init__(self, graph: str, actor: Actor, branch: str | None, query: str | None) -> None:
        self._actor = _Entity("Actor", actor.name)
        self._principals = {self._actor, *(_Entity("Group", group) for group in actor.groups)}
        self._graph = _Entity("Graph", graph)
        self._branch = None if branch is None else _Entity("Branch", f"{graph}/{branch}")
        self._attributes: dict[str, _Known] = {
            **{name: _to_known(value) for name, value in actor.attributes},
            "name": actor.name,
        }
        self._context: dict[str, _Known] = {} if query is None else {"query": query}

    def compile(self, policy: Json) -> Condition:
        """Return when a policy applies to a row."""
        result = both(self._match_principal(policy["principal"]), self._match_resource(policy["resource"]))
        for condition in policy["conditions"]:
            part = self._compile(condition["body"])
            result = both(result, part if condition["kind"] == "when" else negate(part))
        return result

    def _match_principal(self, scope: Json) -> Condition:
        match scope["op"]:
            case "All":
                return TRUE
            case "==":
                return Always(_scope_entity(scope) == self._actor)
            case "in":
                return Always(_scope_entity(scope) in self._principals)
            case _:
                within = scope.get("in")
                is_actor = scope["entity_type"] == "Actor"
                return Always(is_actor and (within is None or _scope_entity(within) in self._principals))

    def _match_resource(self, scope: Json) -> Condition:
        match scope["op"]:
            case "All":
                return TRUE
            case "==":
                # No row is a graph or a branch.
                return FALSE
            case "in":
                return self._is_within(_scope_entity(scope))
            case _:
                within = scope.get("in")
                inside = TRUE if within is None else self._is_within(_scope_entity(within))
                return both(Always(scope["entity_type"] == ROW), inside)

    def _is_within(self, place: _Entity) -> Condition:
        if place.type == "Graph":
            return Always(place == self._graph)
        return FAILS if self._branch is None else Always(place == self._branch)

    def _compile(self, expr: Json) -> Condition:
        try:
            return self._compile_form(*next(iter(expr.items())))
        except _FailsError:
            return FAILS

    def _compile_form(self, form: str, parts: Any) -> Condition:  # noqa: ANN401 - JSON
        match form:
            case "&&":
                return both(self._compile(parts["left"]), self._compile(parts["right"]))
            case "||":
                return either(self._compile(parts["left"]), self._compile(parts["right"]))
            case "!":
                return negate(self._compile(parts["arg"]))
            case "Value":
                return Always(parts)
            case "==" | "!=":
                equal = self._compare(self._evaluate(parts["left"]), self._evaluate(parts["right"]))
                return equal if form == "==" else negate(equal)
            case "<" | "<=" | ">" | ">=":
                return self._order(form, self._evaluate(parts["left"]), self._evaluate(parts["right"]))
            case "contains":
                return self._contain(self._evaluate(parts["left"]), self._evaluate(parts["right"]))
            case "has":
                return self._has(parts["left"]["Var"], parts["attr"])
            case ".":
                value = self._evaluate({form: parts})
                if isinstance(value, _Property):
                    return FAILS if value.name == TYPE else IsTrue(value.name)
                return Always(value) if isinstance(value, bool) else FAILS
            case "in":
                return self._is_in(parts["left"]["Var"], parts["right"])
            case _:
                is_principal = parts["left"]["Var"] == "principal"
                is_type = Always(parts["entity_type"] == ("Actor" if is_principal else ROW))
                within = parts.get("in")
                return is_type if within is None else both(is_type, self._is_in(parts["left"]["Var"], within))

    def _is_in(self, variable: str, places: Json) -> Condition:
        entities = [entity for entity in _list_entities(places) if entity is not None]
        if variable == "principal":
            return Always(any(entity in self._principals for entity in entities))
        result: Condition = FALSE
        # Places that are known come first: a branch matters only where no graph decides.
        for entity in sorted(entities, key=lambda entity: entity.type != "Graph"):
            result = either(result, self._is_within(entity))
        return result

    def _has(self, variable: str, name: str) -> Condition:
        if variable == "resource":
            return TRUE if name == TYPE else HasValue(name)
        if variable not in ("principal", "context"):
            return FALSE
        return Always(name in (self._attributes if variable == "principal" else self._context))

    def _evaluate(self, expr: Json) -> _Operand:
        [(form, parts)] = expr.items()
        match form:
            case "Value":
                return _read_entity(parts) or parts
            case "Set":
                return _build_set([self._evaluate(element) for element in parts])
            case "Var":
                if parts == "principal":
                    return self._actor
                if parts == "action":
                    return _Entity("Action", SEE)
                raise _FailsError
            case _:
                variable, name = parts["left"]["Var"], parts["attr"]
                if variable == "resource":
                    return _Property(name)
                known = self._attributes if variable == "principal" else self._context
                if variable not in ("principal", "context") or name not in known:
                    raise _FailsError
                return known[name]

    def _compare(self, left: _Operand, right: _Operand) -> Condition:
        if isinstance(left, _Property):
            return _build_membership(left.name, [right])
        if isinstance(right, _Property):
            return _build_membership(right.name, [left])
        return Always(_tag(left) == _tag(right))

    def _order(self, operator: str, left: _Operand, right: _Operand) -> Condition:
        if isinstance(right, _Property):
            left, right, operator = right, left, _ORDERS[operator]
        if isinstance(right, bool) or not isinstance(right, int) or isinstance(left, bool):
            return FAILS
        if isinstance(left, _Property):
            return FAILS if left.name == TYPE else Orders(left.name, operator, right)
        if not isinstance(left, int):
            return FAILS
        orders = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        return Always(orders[operator])

    def _contain(self, values: _Operand, value: _Operand) -> Condition:
        if not isinstance(values, frozenset):
            return FAILS
        if isinstance(value, _Property):
            return _build_membership(value.name, [element for _, element in values])
        return Always(_tag(value) in values)


def _scope_entity(scope: Json) -> _Entity:
    return _Entity(scope["entity"]["type"], scope["entity"]["id"])


def _build_membership(name: str, values: Sequence[_Operand]) -> Condition:
    """Return whether a property is one of these values."""
    if name == TYPE:
        return IsType(frozenset(value for value in values if isinstance(value, str)))
    # No property is a set or an entity, but one that is null fails whatever it is compared with.
    return IsOneOf(name, frozenset(_tag(value) for value in values if isinstance(value, str | bool | int)))


def _tag(value: _Operand) -> tuple[str, Any]:
    return type(value).__name__, value


def _build_set(values: Sequence[_Operand]) -> frozenset[tuple[str, Any]]:
    return frozenset(map(_tag, values))


def _to_known(value: object) -> _Known:
    if isinstance(value, tuple):
        return _build_set(value)
    assert isinstance(value, str | bool | int)  # noqa: S101 - the types of attributes
    return value


def iter_static(policies: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """Yield the policies of a text with their names, in order: as texts, `policy10` comes before `policy2`."""
    for name in sorted(policies, key=lambda name: int(name.removeprefix("policy"))):
        yield name, policies[name]
