"""Random paths and conditions on the way, as text, for the random reads."""

from collections.abc import Sequence
from random import Random

from read_worlds import BY_NAME, TypeSpec

_NUMBERS = ("i", "n", "c", "f", "g")


def write_path(chance: Random, edge: TypeSpec, name: str, walk: str, ends: tuple[str, str], node: TypeSpec) -> str:
    """A path over edges of one type; its weights are never null or negative."""
    kind = chance.choice(("path", "shortest", "all_shortest", "cheapest"))
    low = chance.choice((0, 1, 1, 2)) if kind != "cheapest" else chance.choice((0, 1))
    high = str(low + chance.choice((0, 1, 2)) or 1)
    if kind != "path" and chance.random() < 0.5:
        high = "*"
    bounds = f"{{{low},{high}}}"
    written = f"<{name}>{bounds}" if chance.random() < 0.4 else f"{name}{bounds}"
    if edge.source != edge.target:
        # Over several edges such an edge is followed to and fro; an odd number of them leads to the other type.
        written = name if chance.random() < 0.3 else f"<{name}>{{{min(low, 1)},{chance.choice((2, 3, 4))}}}"
        node = TypeSpec(node.name, {}, None)
    weight = f" by {{ {_write_weight(chance, edge)} }}" if kind == "cheapest" else ""
    return f"{kind} {walk} = {ends[0]} {written} {ends[1]}{write_conditions(chance, edge, node)}{weight}"


def write_conditions(chance: Random, edge: TypeSpec, node: TypeSpec) -> str:
    """Conditions on the way, or none."""
    parts = []
    for word, spec in (("along", edge), ("through", node)):
        tests = _list_tests(spec)
        if tests and chance.random() < 0.3:
            parts.append(f" {word} {{ {chance.choice(tests)} }}")
    return "".join(parts)


def _list_tests(spec: TypeSpec) -> Sequence[str]:
    names = [name for name in spec.properties if BY_NAME[name].is_scalar]
    tests = [f"{name} is {word}null" for name in names for word in ("", "not ")]
    return [*tests, *(f"{name} {op} 1" for name in names if name in _NUMBERS for op in ("<", ">=", "!="))]


def _write_weight(chance: Random, edge: TypeSpec) -> str:
    numbers = [name for name in edge.properties if name in _NUMBERS]
    if not numbers or chance.random() < 0.2:
        return chance.choice(("1", "0", "0.5"))
    name = chance.choice(numbers)
    few = f"case {{ {name} > 1 => 2, {name} > 0 => 0 else => 1 }}"
    # Sums of these differ by the order of addition.
    rounded = f"case {{ {name} > 1 => 0.1, {name} > 0 => 0.2 else => 0.3 }}"
    return chance.choice((few, rounded))
