"""Magics for notebooks: `%%gq` and `%%cypher`; `pip install 'omnigraph[jupyter]'` installs what they need.

`%load_ext omnigraph.jupyter` loads them, and `%graph people.omni` or `%graph g` names the graph of the cells below it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from omnigraph.api import open_graph
from omnigraph.engine.result_forms import ResultForms, render_html
from omnigraph.errors import LibraryMissingError, OmnigraphError

try:
    from IPython.core.error import UsageError
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
except ModuleNotFoundError as error:
    raise LibraryMissingError("'omnigraph[jupyter]'") from error

__all__ = ["CellResult", "GraphMagics", "load_ipython_extension"]


class CellResult:
    """The result of a cell, which a notebook draws: nodes and edges as a static SVG, values as a table.

    `result` has the rows. Every value is shown as text: nothing that is stored becomes markup or a script.
    """

    def __init__(self, result: ResultForms) -> None:
        self.result = result

    def __repr__(self) -> str:
        return repr(self.result)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the forms that a notebook chooses from."""
        drawing = self.result.draw()
        if drawing.nodes:
            return {"image/svg+xml": drawing.svg, "text/plain": repr(self)}
        return {"text/html": render_html(self.result), "text/plain": repr(self)}


def _take_options(magic: Callable[..., Any]) -> Callable[..., Any]:
    """Give a magic the options that those of both languages have."""
    for option in (
        argument("--into", help="A variable for the result."),
        argument("--branch", default="main", help="The branch to read."),
        argument("--params", help="A variable that holds the parameters, or JSON without spaces."),
    ):
        magic = option(magic)
    taking: Callable[..., Any] = magic_arguments()(magic)
    return taking


@magics_class
class GraphMagics(Magics):
    """The magics, and the graph that they are about."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._graph: Any = None
        self._names: dict[str, Any] = shell.user_ns

    @line_magic
    def graph(self, line: str) -> str:
        """Set the graph of the cells below: its place, opened read-only, or a variable that holds a graph or place."""
        name = line.strip().strip("\"'")
        held = self._names.get(name, name)
        if not name:
            message = "name a graph: `%graph people.omni`, or a variable that holds one"
            raise UsageError(message)
        if not isinstance(held, str | Path) and not hasattr(held, "query_window"):
            message = f"`{name}` is a variable that holds no graph: it is of the type {type(held).__name__}"
            raise UsageError(message)
        try:
            self._graph = open_graph(str(held), read_only=True) if isinstance(held, str | Path) else held
        except OmnigraphError as error:
            raise UsageError(str(error)) from None
        return f"graph: {name}"

    @_take_options
    @argument("--name", help="Which query of the cell to run; needed only if it has several.")
    @cell_magic
    def gq(self, line: str, cell: str) -> CellResult | None:
        """Run the query of the cell, which only reads, and draw its result."""
        words = parse_argstring(self.gq, line)
        return self._run(
            words, lambda graph, params: graph.query(cell, name=words.name, params=params, branch=words.branch)
        )

    @_take_options
    @cell_magic
    def cypher(self, line: str, cell: str) -> CellResult | None:
        """Run the statement of Cypher in the cell, which only reads, and draw its result."""
        words = parse_argstring(self.cypher, line)
        return self._run(words, lambda graph, params: graph.cypher(cell, params, branch=words.branch))

    def _run(self, words: Any, work: Any) -> CellResult | None:  # noqa: ANN401 - parsed words, and a call of a graph
        if self._graph is None:
            message = "name the graph first: `%graph people.omni`, or a variable that holds one"
            raise UsageError(message)
        if words.into is not None and not words.into.isidentifier():
            message = f"`--into {words.into}` can't be the name of a variable"
            raise UsageError(message)
        try:
            result = CellResult(work(self._graph, self._read_params(words.params)))
        except OmnigraphError as error:
            # A mistake in a query is no failure of the notebook: its message is shown without a traceback.
            raise UsageError(str(error)) from None
        for note in result.result.notes:
            sys.stderr.write(f"note: {note}\n")
        if words.into is None:
            return result
        self._names[words.into] = result.result
        return None

    def _read_params(self, text: str | None) -> dict[str, Any]:
        if text is None:
            return {}
        held = self._names.get(text)
        try:
            params = json.loads(text.strip("'")) if held is None else held
        except ValueError:
            params = None
        if not isinstance(params, dict):
            message = f"`--params {text}` is neither a variable that holds a dict nor a JSON object"
            raise UsageError(message)
        return params


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics: what `%load_ext omnigraph.jupyter` calls."""
    shell.register_magics(GraphMagics)
