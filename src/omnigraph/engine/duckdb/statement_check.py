"""Check the parse tree of a SQL statement before it runs: one query, over the graph's types, with allowed functions.

DuckDB parses the text and prints the tree as JSON, so what is checked is what will run. Everything that is not known
to be harmless is rejected: kinds of nodes, functions and tables alike.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import duckdb

from omnigraph.engine.duckdb.allowed_functions import SCALAR_FUNCTIONS, TABLE_FUNCTIONS
from omnigraph.engine.duckdb.sql_errors import SqlError, format_reason
from omnigraph.lang.spelling import find_closest

_Node: TypeAlias = dict[str, Any]
_Scope: TypeAlias = frozenset[str]

# Nodes that are not expressions: queries, tables, modifiers, sort orders.
_NODES = """
SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE
BASE_TABLE SUBQUERY JOIN TABLE_FUNCTION EXPRESSION_LIST EMPTY PIVOT SHOW_REF
ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER DISTINCT_MODIFIER
ORDER_DEFAULT ASCENDING DESCENDING
"""
_ALLOWED_NODES = frozenset(_NODES.split())
# Of `describe` and `summarize`; other forms of `show` list settings and databases.
_ALLOWED_SHOWS = frozenset({"DESCRIBE", "SUMMARY"})
_ONLY_QUERIES = "it must be a single query that begins with `select`, `with`, `from`, `values` or `describe`"


@dataclass(frozen=True, slots=True)
class StatementUsage:
    """What a statement names: types of the graph, in lower case, and parameters."""

    tables: frozenset[str]
    parameters: frozenset[str]


def check_statement(connection: duckdb.DuckDBPyConnection, text: str, type_names: Iterable[str]) -> StatementUsage:
    """Check a statement, and return what it uses.

    Raises:
        SqlError: It is not one query, or names a table or function that it may not use.
    """
    parse = "select json_serialize_sql($1, skip_null := true, skip_empty := true)"
    # All rows: a result that was not read to its end blocks the connection.
    ((tree,),) = connection.execute(parse, [text]).fetchall()
    try:
        document = json.loads(tree)
    except RecursionError:
        raise SqlError("its expressions or subqueries are nested too deeply") from None
    if document["error"]:
        is_other_kind = document["error_type"] == "not implemented"
        raise SqlError(_ONLY_QUERIES if is_other_kind else format_reason(document["error_message"]))
    statements = document.get("statements", [])
    if len(statements) != 1:
        raise SqlError(_ONLY_QUERIES)
    return _check_tree(statements[0]["node"], {name.lower(): name for name in type_names})


def _check_tree(root: _Node, types: dict[str, str]) -> StatementUsage:
    tables, parameters = set[str](), set[str]()
    # Without recursion: a tree may be deeper than Python's stack.
    pending: list[tuple[Any, _Scope]] = [(root, frozenset())]
    while pending:
        item, scope = pending.pop()
        if isinstance(item, list):
            pending.extend((child, scope) for child in item)
            continue
        if not isinstance(item, dict):
            continue
        kind = item.get("type")
        if isinstance(kind, str) and "class" not in item:
            _check_node(item, kind)
            if kind == "BASE_TABLE" and (name := _check_table(item, scope, types)) is not None:
                tables.add(name)
        if item.get("class") == "PARAMETER":
            parameters.add(str(item.get("identifier", "")))
        if isinstance(name := item.get("function_name"), str):
            _check_function(name, SCALAR_FUNCTIONS)
        pending.extend(_iter_children(item, scope))
    return StatementUsage(frozenset(tables), frozenset(parameters))


def _iter_children(node: _Node, scope: _Scope) -> Iterator[tuple[Any, _Scope]]:
    """Yield the children of a node, each with the names of the common table expressions that it sees."""
    if node.get("type") == "RECURSIVE_CTE_NODE":
        scope |= {str(node.get("cte_name", "")).lower()}
    # Each of them sees those before it. Without that, one that is called like a built-in view would open the view.
    for entry in node.get("cte_map", {}).get("map", ()):
        yield entry["value"], scope
        scope |= {entry["key"].lower()}
    for key, child in node.items():
        if key == "cte_map":
            continue
        if key == "function" and node.get("type") == "TABLE_FUNCTION":
            _check_function(child["function_name"], TABLE_FUNCTIONS)
            child = {name: value for name, value in child.items() if name != "function_name"}  # noqa: PLW2901 - checked
        yield child, scope


def _check_node(node: _Node, kind: str) -> None:
    if kind not in _ALLOWED_NODES and not kind.endswith("_TYPE_INFO"):
        raise SqlError(_ONLY_QUERIES)
    if kind == "SHOW_REF" and (node.get("show_type") not in _ALLOWED_SHOWS or "query" not in node):
        raise SqlError("of these statements only `describe` and `summarize`, with a type or a query, are supported")


def _check_table(node: _Node, scope: _Scope, types: dict[str, str]) -> str | None:
    """Return the type that a table is, in lower case, or None if it is a common table expression."""
    path: list[str] = node["qualified_name"]["path"]
    name = path[-1].lower()
    if len(path) == 1 and name in scope:
        return None
    if len(path) != 1 or name not in types or "at_clause" in node:
        near = find_closest(path[-1], types.values())
        way_out = f"did you mean `{near}`?" if near else "the tables are the node and edge types of the graph"
        raise SqlError(f"there is no table `{'.'.join(path)}`; {way_out}")
    return name


def _check_function(name: str, allowed: frozenset[str]) -> None:
    # Operators are functions whose names have no letters.
    is_operator = not any(character.isalnum() or character == "_" for character in name)
    if name.lower() not in allowed and not is_operator:
        near = find_closest(name.lower(), allowed)
        way_out = f"; did you mean `{near}`?" if near else ""
        raise SqlError(f"the function `{name}` is not available here{way_out}")
