"""Check arguments of public methods, and report mistakes with what was likely meant."""

import os
from collections.abc import Mapping

from omnigraph.errors import BadArgumentError
from omnigraph.lang.source import Source
from omnigraph.schema.values import format_value


def build_query_source(value: object) -> Source:
    """Return the text of queries as a source.

    Raises:
        BadArgumentError: The value is not a text, or is the name of a file.
    """
    return _build_source(value, "source", "query.gq", "queries")


def build_schema_source(value: object) -> Source:
    """Return the text of a schema as a source.

    Raises:
        BadArgumentError: The value is not a text, or is the name of a file.
    """
    return _build_source(value, "schema", "schema.pg", "a schema")


def check_parameters(value: object) -> Mapping[str, object]:
    """Return the parameters of a query by name; an empty mapping for None.

    Raises:
        BadArgumentError: The value is not a mapping from names.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadArgumentError(
            "params", _describe_type(value), 'it is a mapping from names to values, such as {"name": "Ada"}'
        )
    for name in value:
        if not isinstance(name, str):
            raise BadArgumentError("params", f"{{{name!r}: …}}", 'names are text, as the query has them: {"n": 1}')
    return value


def check_uri(value: object, argument: str = "uri") -> str:
    """Return an address, or a path object, as text.

    Raises:
        BadArgumentError: The value is neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike) and isinstance(path := os.fspath(value), str):
        return path
    raise BadArgumentError(argument, _describe_type(value), "it is a path, `file://…` or `s3://bucket/prefix`")


def _build_source(value: object, argument: str, name: str, what: str) -> Source:
    if isinstance(value, Source):
        return value
    if not isinstance(value, str):
        raise BadArgumentError(
            argument, _describe_type(value), f"it is the text of {what}, such as Path(…).read_text()"
        )
    # A text without braces and line breaks that ends like a file name is neither a query nor a schema.
    if value.endswith(name[name.index(".") :]) and not any(mark in value for mark in "{}\n"):
        way_out = f"that is the name of a file: pass its contents, Path({value!r}).read_text()"
        raise BadArgumentError(argument, format_value(value), way_out)
    return Source(value, name)


def _describe_type(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
