"""Write docs/reference/cypher.md from the tables of features. Run by `make docs`; a test fails when it is stale."""

from pathlib import Path

from omnigraph.query.cypher.features import list_features, list_functions, list_writing_clauses

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cypher.md"

INTRODUCTION = """\
# Cypher

<!-- Written by tools/cypher_reference.py (`make docs`). Don't edit by hand. -->

Statements of Cypher that read run on the same engine as [queries](query-language.md): `Graph.cypher` in Python,
`omnigraph query --cypher TEXT`, `POST /graphs/{graph}/cypher`, and the tool `graph_cypher` of agents. Branches, time
travel, limits, policies and the engines `memory`, `local` and `spark` are those of any query; `omnigraph explain
--cypher` shows the plan. [Come from Cypher](../how-to/come-from-cypher-and-sql.md) has examples.

## Meaning

The meaning is that of openCypher 9, over values whose types the schema declares.

- A label is a node type or an interface, a relationship type an edge type, or what `@cypher("LIKES")` before its ends
  calls it; case and underscores don't matter where one fits. Without a label, all types are meant.
- A property that some of the types lack is null there. One that has two types among them is an error, `C008`; in whole
  nodes of several types it is left out, with a note in the result, `C103`.
- An unknown label matches nothing and an unknown property is null, each with a note in the result; with `--strict` they
  are errors.
- Matches are a bag: each relationship is a row of its own. Relationships of one `MATCH` differ.
- Null is the largest value in an order. A condition that is null does not hold.
- Whole numbers are divided as such. A division by zero, also of fractions, and an overflow are errors, also in a
  condition, unless another part of it decides. Conditions of a `MATCH` that can fail are for the matches that fulfil
  all others.
- A parameter has the type of its value, also a map, and a list of nulls, lists or maps, of at most 1,000 items; a text
  that is compared with a Date or DateTime is read as one.
- Lists have one type; a whole number beside a fraction becomes a fraction. They may hold nulls, except lists of nodes
  or relationships.
- Instants are those of UTC: a text with another zone is refused.
- A pattern is a condition and no value, and binds nothing: `RETURN EXISTS { (a)-->(b) }`.
- A whole node is an object with `id`, `@type` and its properties; a relationship also has `src` and `dst`; a path has
  `nodes` and `edges`. `id()` and `elementId()` are texts, `Type/id`.

"""


def page() -> str:
    """Return the text of the page."""
    lines: list[str] = []
    group = ""
    for feature in list_features():
        if feature.group != group:
            group = feature.group
            lines += [f"## {group.capitalize()}", "", "| form | example | |", "|---|---|---|"]
        state = "done" if feature.instead is None else f"refused: {feature.instead}"
        row = f"| {_cell(feature.name)} | `{_cell(feature.example)}` | {_cell(state)} |"
        lines.append(row)
    lines += ["", "## Functions", "", "| function | |", "|---|---|"]
    lines += [
        f"| `{_cell(name)}` | {_cell('done' if no is None else f'refused: {no}')} |" for name, no in list_functions()
    ]
    lines += ["", "## Clauses that write", "", "They are refused, each with what does the same.", ""]
    lines += ["| clause | instead |", "|---|---|"]
    lines += [f"| `{word}` | {_cell(instead)} |" for word, instead in list_writing_clauses()]
    text = "\n".join(lines)
    for head in ("## Patterns", "## Expressions"):
        text = text.replace(f"\n{head}", f"\n\n{head}")
    return INTRODUCTION + text + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
