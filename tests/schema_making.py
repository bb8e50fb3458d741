"""Schemas for tests: from text, or drawn at random with names that meet again."""

from collections.abc import Sequence

from hypothesis import strategies as st

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import bind_schema, load_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.identity import assign_identities


def catalog_from(text: str) -> Catalog:
    """The catalog of a correct schema."""
    return load_schema(Source(text, "test.pg"))


def accepted(text: str, previous: Catalog | None = None) -> Catalog:
    """The catalog of a correct schema, with identities."""
    return assign_identities(catalog_from(text), previous)


def found_in(text: str) -> tuple[Diagnostic, ...]:
    """Everything the binder finds in a text that parses."""
    source = Source(text, "test.pg")
    return bind_schema(parse_schema(source).require(source)).diagnostics


def marked(text: str, diagnostic: Diagnostic) -> str:
    """The part of the text that a diagnostic points at."""
    return Source(text).slice(diagnostic.span)


# --- schemas at random -------------------------------------------------------------------------------

NODE_NAMES = ("A", "B", "C", "D")
EDGE_NAMES = ("E", "F", "G")
PROPERTY_NAMES = ("p", "q", "r", "s")

_DEFAULTS = {
    "String": ('"x"', '"y"', '""'),
    "I32": ("1", "2", "0"),
    "F64": ("0.5", "-0.0", "0.0"),
    "Date": ('date("2020-02-29")',),
    "DateTime": ('datetime("2020-02-29T01:02:03.5+01:00")',),
    "Bool": ("true", "false"),
    "enum(a, b)": ('"a"',),
    "enum(b, a)": ('"a"',),
    "enum(a, b, c)": ('"a"', '"c"'),
    "[I32]": ("[1, 2]", "[]"),
    "Vector(2)": ("[0.1, 2]",),
    "Blob": ('"base64:AA=="',),
}
_BOUNDS = {
    "I32": ("0..9", "0..", "..9", "-5..20"),
    "F64": ("0..1", "-0.5..0.5"),
    "Date": ('date("2020-01-01")..', 'date("2019-01-01")..'),
}
_SCALARS = ("String", "I32", "F64", "Date", "DateTime", "Bool", "enum(a, b)", "enum(b, a)", "enum(a, b, c)")
_KEYS = tuple(type_ for type_ in _SCALARS if type_ != "F64")


@st.composite
def schema_texts(draw: st.DrawFn) -> str:
    """A correct schema over a few names, so that two of them share types and properties, or rename them."""
    interfaces = draw(st.booleans())
    nodes = draw(st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=3, unique=True))
    edges = draw(st.lists(st.sampled_from(EDGE_NAMES), max_size=2, unique=True))
    parts = ["interface Seen { seen: Bool? @index\n }\n"] if interfaces else []
    node_renames = _renames(draw, nodes, NODE_NAMES)
    edge_renames = _renames(draw, edges, EDGE_NAMES)
    for name in nodes:
        implements = " implements Seen" if interfaces and draw(st.booleans()) else ""
        parts.append(f"node {name}{node_renames[name]}{_note(draw)}{implements} {{\n{_body(draw, is_edge=False)}}}\n")
    for name in edges:
        ends = " -> ".join(draw(st.sampled_from(nodes)) for _ in range(2))
        card = draw(st.sampled_from(("", " @card(0..1)", " @card(1..*)", " @card(0..5)")))
        body = _body(draw, is_edge=True)
        parts.append(f"edge {name}: {ends}{card}{edge_renames[name]}{_note(draw)} {{\n{body}}}\n")
    return "".join(parts)


def catalogs() -> st.SearchStrategy[Catalog]:
    """Catalogs of such schemas, without identities."""
    return schema_texts().map(catalog_from)


def _renames(draw: st.DrawFn, names: Sequence[str], pool: Sequence[str]) -> dict[str, str]:
    """A `@rename_from` for some: from a name that is free, or the two of a swap."""
    renames = dict.fromkeys(names, "")
    if len(names) >= 2 and draw(st.integers(0, 5)) == 0:
        first, second = names[:2]
        return {**renames, first: f' @rename_from("{second}")', second: f' @rename_from("{first}")'}
    free = [name for name in pool if name not in names]
    for name in names:
        if free and draw(st.integers(0, 2)) == 0:
            renames[name] = f' @rename_from("{free.pop(draw(st.integers(0, len(free) - 1)))}")'
    return renames


def _note(draw: st.DrawFn) -> str:
    notes = ("", "", ' @description("one")', ' @description("two")', " @owner(me, since=1)", " @owner(me, since=true)")
    return draw(st.sampled_from(notes))


def _body(draw: st.DrawFn, *, is_edge: bool) -> str:
    names = draw(st.lists(st.sampled_from(PROPERTY_NAMES), max_size=4, unique=True))
    renames = _renames(draw, names, PROPERTY_NAMES)
    types: dict[str, str] = {}
    required: set[str] = set()
    lines: list[str] = []
    for name in names:
        type_ = types[name] = draw(st.sampled_from(tuple(_DEFAULTS)))
        mark = draw(st.sampled_from(("", "?")))
        if not mark:
            required.add(name)
        default = f" @default({draw(st.sampled_from(_DEFAULTS[type_]))})" if draw(st.booleans()) else ""
        embed = _embed(draw, name, types) if type_ == "Vector(2)" and not is_edge else ""
        lines.append(f"  {name}: {type_}{mark}{default}{renames[name]}{embed}{_note(draw)}\n")
    lines.extend(_constraints(draw, types, required, is_edge=is_edge))
    return "".join(lines)


def _embed(draw: st.DrawFn, name: str, types: dict[str, str]) -> str:
    texts = [other for other, type_ in types.items() if type_ == "String" and other != name]
    return f' @embed("{texts[0]}")' if texts and _flip(draw) else ""


def _constraints(draw: st.DrawFn, types: dict[str, str], required: set[str], *, is_edge: bool) -> list[str]:
    ends = ["src", "dst"] if is_edge else []
    keys = ends + [name for name, type_ in types.items() if type_ in _KEYS and name in required]
    scalars = ends + [name for name, type_ in types.items() if type_ in _SCALARS]
    indexable = [name for name, type_ in types.items() if type_ != "Blob"]
    lines: list[str] = []
    if keys and draw(st.integers(0, 2)) == 0:
        lines.append(f"@key({', '.join(_some(draw, keys))})")
    uniques = {tuple(sorted(_some(draw, scalars))) for _ in range(2) if scalars and _flip(draw)}
    lines.extend(f"@unique({', '.join(columns)})" for columns in sorted(uniques))
    if indexable and _flip(draw):
        lines.append(f"@index({', '.join(_some(draw, indexable))})")
    for name, type_ in types.items():
        if type_ in _BOUNDS and draw(st.booleans()):
            lines.append(f"@range({name}, {draw(st.sampled_from(_BOUNDS[type_]))})")
        if type_ == "String" and draw(st.booleans()):
            lines.append(f'@check({name}, "{draw(st.sampled_from(("^.?", ".?$")))}")')
    return [f"  {line}\n" for line in lines]


def _flip(draw: st.DrawFn) -> bool:
    return draw(st.booleans())


def _some(draw: st.DrawFn, names: Sequence[str]) -> list[str]:
    return draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
