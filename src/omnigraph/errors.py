"""Define the base class of all errors, and errors that several packages raise.

The kind shows what a caller can do, the code names the case, and fields hold the facts. They are declared once: the
constructor, the message, the facts of `--json` and pickling follow from the declaration. Cases that callers handle
alike are variants of one class.
"""

from collections.abc import Callable, Mapping
from copyreg import __newobj__  # type: ignore[attr-defined]  # what pickle itself uses to make an object
from enum import Enum
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar, dataclass_transform

P = ParamSpec("P")
E = TypeVar("E", bound="OmnigraphError")

_MAX_JSON_INTEGER = 2**53 - 1  # larger ones are not exact in parsers that read JSON numbers as floating point
MAX_LISTED_NAMES = 10  # by a message; `facts` has them all


class Kind(Enum):
    """What a caller can do about an error; the command line maps it to an exit code."""

    INVALID = "invalid"
    """The input is wrong: change it."""
    USAGE = "usage"
    """The call is wrong: read the help."""
    CONFLICT = "conflict"
    """Another writer was first: read again and retry."""
    NOT_FOUND = "not_found"
    """The thing named does not exist: check the name."""
    DENIED = "denied"
    """The actor may not do this: ask for the permission."""
    EXHAUSTED = "exhausted"
    """A budget of time, memory or size ran out: ask for less, or raise the budget."""
    UNAVAILABLE = "unavailable"
    """The storage or server did not answer: retry later."""
    CORRUPT = "corrupt"
    """The stored data is damaged or has another format: run `omnigraph check`."""
    INTERNAL = "internal"
    """A bug of omnigraph: please report it."""


class _FieldSignature:
    """The signature of an error class for `inspect.signature`, built from its fields on demand."""

    def __get__(self, error: object, owner: type["OmnigraphError"]) -> object:
        # Only tools need it, and `import omnigraph` must stay cheap.
        from inspect import Parameter, Signature  # noqa: PLC0415

        if owner.__init__ is not OmnigraphError.__init__:
            message = f"{owner.__name__} defines its own constructor"
            raise AttributeError(message)
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters = [
            Parameter(name, kind, default=getattr(owner, name, Parameter.empty), annotation=annotation)
            for name, annotation in owner._fields.items()
        ]
        return Signature(parameters)


class variant(Generic[P]):  # noqa: N801 - a decorator
    """Declare a further case of an error class: `raise MissingError.row_not_found("Person", "ada")`.

    The name of the decorated method is the code, its parameters are the fields, its docstring says when the case
    occurs, and it returns the message.
    """

    def __init__(self, format_message: Callable[Concatenate[Any, P], str]) -> None:
        code = format_message.__code__
        defaults = format_message.__defaults__ or ()
        self.format_message = format_message
        self.fields = code.co_varnames[1 : code.co_argcount]
        self.defaults = dict(zip(self.fields[len(self.fields) - len(defaults) :], defaults, strict=True))

    def __get__(self, error: object, owner: type[E]) -> Callable[P, E]:
        def build(*values: P.args, **named: P.kwargs) -> E:
            new = owner.__new__(owner)
            new._bind(f"{owner.__name__}.{code}", self.fields, self.defaults, values, named)  # noqa: SLF001 - of this module
            new.code = code  # type: ignore[misc]  # constant for a variant, as for a class
            return new

        code = self.format_message.__name__
        return build


@dataclass_transform()
class OmnigraphError(Exception):
    """The base class of every error that omnigraph raises on purpose.

    A subclass declares its fields like a dataclass, and its message as a template over them. One whose text depends on
    more than its fields defines `__str__`. Cases that callers never tell apart are variants of one class; a class
    without a code has only these.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "internal"
    message: ClassVar[str] = ""
    variants: ClassVar[dict[str, variant[...]]] = {}
    """The further cases of this class, by code."""

    _fields: ClassVar[dict[str, object]] = {}
    __signature__: ClassVar[object] = _FieldSignature()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A class that has only variants may annotate their fields for type checkers; it has none itself.
        cls._fields = {**cls._fields, **(cls.__annotations__ if "code" in vars(cls) else {})}
        cls.variants = {name: value for name, value in vars(cls).items() if isinstance(value, variant)}

    @classmethod
    def codes(cls) -> tuple[str, ...]:
        """Return the codes that errors of this class can have, without those of subclasses."""
        return (*([cls.code] if "code" in vars(cls) else []), *cls.variants)

    def __init__(self, *values: object, **named: object) -> None:
        cls = type(self)
        if cls.variants and "code" not in vars(cls):
            message = f"{cls.__name__} has the variants {', '.join(cls.variants)}"
            raise TypeError(message)
        defaults = {name: getattr(cls, name) for name in self._fields if hasattr(cls, name)}
        # A class without fields has its own constructor, which passes what it keeps in `args`.
        if self._fields:
            self._bind(cls.__name__, tuple(self._fields), defaults, values, named)
        else:
            self.args = values

    def _bind(
        self,
        name: str,
        fields: tuple[str, ...],
        defaults: Mapping[str, object],
        values: tuple[object, ...],
        named: Mapping[str, object],
    ) -> None:
        """Set each field to its argument or default."""
        rest = fields[len(values) :]
        missing = [field for field in rest if field not in named and field not in defaults]
        if missing or len(values) > len(fields) or not named.keys() <= set(rest):
            message = f"{name} takes {', '.join(fields)}"
            raise TypeError(message)
        self.args = (*values, *(named.get(field, defaults.get(field)) for field in rest))
        vars(self).update(zip(fields, self.args, strict=True))

    def __reduce__(self) -> tuple[object, ...]:
        # Restored from its attributes: constructors of variants and of subclasses take other arguments.
        return __newobj__, (type(self), *self.args), vars(self)

    def __str__(self) -> str:
        case = self.variants.get(self.code)
        if case is None:
            return self._format_message()
        return case.format_message(self, *(vars(self)[field] for field in case.fields))

    def _format_message(self) -> str:
        """Return the text of an error that is no variant; a class that has variants overrides this, not `__str__`."""
        return self.message.format_map(vars(self)) if self.message else super().__str__()

    def facts(self) -> dict[str, object]:
        """Return the error's own attributes by name, which `--json` prints beside code, kind and message.

        A number that JSON can't hold exactly, such as a table version, is text; a tuple is a list.
        """
        attributes = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "code"}
        return {name: _convert_fact(value) for name, value in attributes.items()}


def _convert_fact(value: object) -> object:
    if isinstance(value, int) and abs(value) > _MAX_JSON_INTEGER:
        return str(value)
    return list(value) if isinstance(value, tuple) else value


class BadArgumentError(OmnigraphError):
    """An argument of a call has an invalid value; `expected` states which values are valid."""

    kind = Kind.USAGE
    code = "bad_argument"
    argument: str
    value: str
    expected: str

    def _format_message(self) -> str:
        # An identifier is a parameter's name and is quoted; anything else is a description, such as "a state".
        what = f"`{self.argument}`" if self.argument.isidentifier() else self.argument
        return f"{what} can't be {self.value}: {self.expected}"

    @variant
    def bad_branch_name(self, name: str, reason: str) -> str:
        """Report that the name is not allowed for a branch."""
        return f"`{name}` can't be the name of a branch: {reason}"

    @variant
    def bad_resolutions(self, problems: str) -> str:
        """Report that resolutions do not fit the conflicts of a merge: unknown, missing, contradicting or invalid."""
        return f"the resolutions don't fit the conflicts, so nothing was merged:\n{problems}"

    @variant
    def bad_tag_name(self, name: str, reason: str) -> str:
        """Report that a name that no tag may have."""
        return f"`{name}` can't be the name of a tag: {reason}"

    @variant
    def bad_filter(self, name: str, reason: str) -> str:
        """Report that a filter of `commit list` does not exist, or its value can't be parsed."""
        return f"can't filter commits by `{name}`: {reason}"

    @variant
    def bad_place(self, place: str, reason: str) -> str:
        """Report that a text is no location that can be read or written here."""
        return f"`{place}` can't be used: {reason}"

    @variant
    def bad_uri(self, uri: str, reason: str) -> str:
        """Report that the text is not a URI under which a graph can be stored."""
        return f"`{uri}` can't hold a graph: {reason}"

    @variant
    def bad_server_url(self, url: str, reason: str) -> str:
        """Report that the URL is not a valid server address, or a token would be sent to it unencrypted."""
        return f"can't connect to `{url}`: {reason}"

    @variant
    def nested_places(self, source: str, target: str) -> str:
        """Report that the target of a clone is inside its source, contains it, or is the same location."""
        return f"{target} is inside {source}, contains it, or is the same: choose a separate location"

    @variant
    def target_ambiguous(self) -> str:
        """Report that a query names two states: a commit, an instant, or how old the newest state may be."""
        return (
            "a query reads one state: give either a snapshot or a time, or `max_staleness` and `min_commit` for the"
            " newest state"
        )

    @variant
    def bad_file_mapping(self, source: str, problems: tuple[str, ...]) -> str:
        """Report that a mapping of columns does not fit its file, the schema, or its own form."""
        return f"the mapping of `{source}` does not fit: {'; '.join(problems)}"

    @variant
    def commit_ambiguous(self, text: str, ids: tuple[str, ...], count: int) -> str:
        """Report that a short commit id is part of several; `ids` has the newest of them."""
        rest = "" if count == len(ids) else f" and {count - len(ids):,} more"
        return f"`{text}` is part of the ids of {count:,} commits; give more of it: {', '.join(ids)}{rest}"

    @variant
    def query_ambiguous(self, source: str, names: tuple[str, ...]) -> str:
        """Report that a source has several queries, and none was named."""
        return f"`{source}` has {len(names)} queries; name one: {', '.join(names)}"

    @variant
    def type_kind(self, name: str, given_as: str) -> str:
        """Report that rows of a node type are given as edges, or the reverse; `given_as` is `nodes` or `edges`."""
        is_node = given_as == "edges"
        actual, way_out = ("a node", "`nodes` (--node)") if is_node else ("an edge", "`edges` (--edge)")
        return f"`{name}` is {actual} type, but its rows are given as {given_as}; pass them as {way_out}"

    @variant
    def input_twice(self, path: str, first: str) -> str:
        """Report that a file is named twice, so its records would be loaded twice, or as two types."""
        again = "" if first == path else f" (it is the same file as `{first}`)"
        return f"`{path}` is named twice{again}; name every file once"

    @variant
    def bad_input_name(self, text: str, form: str) -> str:
        """Report that an argument such as `Person=people.csv` or `Person.name=full_name` is malformed."""
        return f"`{text}` is not of the form `{form}`"

    @variant
    def input_elsewhere(self, address: str) -> str:
        """Report that an input has an address that a load can't read from."""
        return (
            f"`{address}` is not a path: a load reads files on this machine, or shared with Spark's machines, and"
            " `s3://bucket/key` where the graph itself is opened."
            " Copy the data to a file, mount the store, or let Spark read it:"
            " `graph.spark.load(nodes={...: spark.read...})`"
        )

    @variant
    def another_graph(self, uri: str, source: str) -> str:
        """Report that the source of a repair is not a copy of this graph but another graph."""
        return (
            f"{source} is no copy of {uri}: they do not begin with the same commit."
            " Name a clone or a backup of this very graph"
        )

    @variant
    def demo_place_taken(self, directory: str) -> str:
        """Report that the directory for the tour holds files that the tour did not create."""
        return f"`{directory}` is not empty and was not created by an earlier tour: name another directory"


class SettingsError(OmnigraphError):
    """A settings file has an invalid value; `key` names the setting."""

    kind = Kind.USAGE
    code = "bad_settings"
    path: str
    key: str
    reason: str

    def _format_message(self) -> str:
        return f"{self.path}: {f'`{self.key}`: ' if self.key else ''}{self.reason}"

    @variant
    def bad_variable(self, variable: str, value: str, way_out: str = "write true or false") -> str:
        """Report that an environment variable has an invalid value."""
        return f"the environment variable {variable} is `{value}`; {way_out}"

    @variant
    def bad_bind(self, given: str) -> str:
        """Report that an address that no server can listen on."""
        return f"can't listen on `{given}`: write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080"

    @variant
    def bad_graph_id(self, given: str, reason: str) -> str:
        """Report that a graph can't be served under this name, or two graphs have the same."""
        return f"a graph can't be served as `{given}`: {reason}"

    @variant
    def open_server(self, address: str, reason: str) -> str:
        """Report that a server would allow every client everything, without this being confirmed."""
        return f"not serving on {address}: {reason}"

    @variant
    def bad_agent_settings(self, reason: str) -> str:
        """Report that the settings do not determine which graph an agent works on, or as which actor."""
        return reason

    @variant
    def bad_policies(self, path: str, problems: tuple[str, ...]) -> str:
        """Report that policies are invalid; `problems` lists the mistakes, each with its file."""
        return "\n".join([f"the policies of `{path}` can't be used:", *problems])

    @variant
    def bad_certificate(self, path: str, reason: str) -> str:
        """Report that a server's certificate or its key can't be used."""
        return f"the certificate `{path}` and its private key can't be used: {reason}"

    @variant
    def no_embedding_provider(self, property: str, instead: str | None = None) -> str:
        """Report that a text must become a vector, but no provider is configured."""
        other_way = f", or {instead}" if instead else ""
        return (
            f"a text must become a vector of `{property}`, but no embedding provider is configured: set"
            f" OMNIGRAPH_EMBED_PROVIDER to `openai` or `hash`{other_way}"
        )

    @variant
    def no_reranker(self) -> str:
        """Report that a query reranks, but no reranker is configured."""
        return (
            "`rerank` needs a reranker, but none is configured: set OMNIGRAPH_RERANK_PROVIDER to `http` or `overlap`,"
            " or leave `rerank` out"
        )

    @variant
    def reranker_settings(self, provider: str, reason: str) -> str:
        """Report that a reranker is chosen, but its settings are incomplete or wrong."""
        return f"the reranker `{provider}` can't be used: {reason}"

    @variant
    def embedding_settings(self, provider: str, reason: str) -> str:
        """Report that a provider is chosen, but its settings are incomplete or wrong."""
        return f"the embedding provider `{provider}` can't be used: {reason}"


class LibraryMissingError(OmnigraphError):
    """A result was requested in the form of a library that is not installed."""

    kind = Kind.USAGE
    code = "library_missing"
    library: str
    message = "this needs {library}, which is not installed: `pip install {library}`"

    @variant
    def spark_missing(self, module: str) -> str:
        """Report that Spark is needed but not installed."""
        return f"this needs Spark ({module} is not installed): `pip install 'omnigraph[spark]'`"

    @variant
    def server_missing(self, module: str) -> str:
        """Report that the server is needed but not installed."""
        extra = {"pygls": "lsp", "mcp": "mcp"}.get(module.partition("_")[0], "server")
        return f"this needs the server ({module} is not installed): `pip install 'omnigraph[{extra}]'`"


class QueryError(OmnigraphError):
    """A query or algorithm can't be run as it is: change it."""

    kind = Kind.INVALID

    @variant
    def not_a_mutation(self, name: str) -> str:
        """Report that a query that only reads was passed where a mutation is needed."""
        return f"the query `{name}` only reads; run it as a query, not as a mutation"

    @variant
    def match_of_dry_run(self, types: str) -> str:
        """Report that a dry run would have to write files, because a match reads what was just written."""
        return (
            f"a match reads {types}, which an earlier statement of the same query writes: a dry run can't show that"
            " without writing files; run the query on a branch of its own, and compare it with `diff`"
        )

    @variant
    def not_a_read(self, name: str) -> str:
        """Report that a query that changes the graph was passed where only reads are allowed."""
        return f"the query `{name}` changes the graph; run it as a mutation, not as a query"

    @variant
    def aggregate_overflow(self, aggregate: str, type: str) -> str:
        """Report that an aggregate is larger than its type can hold."""
        return f"`{aggregate}` is larger than {type} can hold: group by more, or filter first"

    @variant
    def absent_weight(self, edge_type: str, id: str, weight: str) -> str:
        """Report that an edge has no weight for the cheapest path."""
        return (
            f"`{weight}` has no value for the edge `{id}` of {edge_type}: give it one,"
            f" write `coalesce({weight}, …)`, or leave such edges out with `along {{ {weight} is not null }}`"
        )

    @variant
    def negative_weight(self, edge_type: str, id: str, weight: str) -> str:
        """Report that the weight of an edge is negative, so that no path is the cheapest."""
        return (
            f"`{weight}` is negative for the edge `{id}` of {edge_type}: the cheapest path needs weights of at least 0;"
            f" change it, write `abs({weight})`, or leave such edges out with `along {{ {weight} >= 0 }}`"
        )

    @variant
    def calculation_overflow(self, expression: str) -> str:
        """Report that a calculated integer does not fit into 64 bits."""
        return f"the value of `{expression}` does not fit into 64 bits: calculate with floats, as in `… * 1.0`"

    @variant
    def division_by_zero(self, expression: str) -> str:
        """Report that a calculation of Cypher divides by zero."""
        return f"`{expression}` divides by zero: leave such rows out before, or write `CASE WHEN … <> 0 THEN … END`"

    @variant
    def value_out_of_range(self, expression: str, property: str, type: str) -> str:
        """Report that a calculated value does not fit the type of its property."""
        return f"a value of `{expression}` does not fit `{property}`, which is {type}"

    @variant
    def value_missing(self, expression: str, property: str) -> str:
        """Report that a calculated value is null, but its property is required."""
        way = "give another value with `coalesce`"
        if expression.endswith(".@id"):
            way = f"leave the row out with `{expression.removesuffix('.@id')} is not null`"
        return f"`{expression}` is null in a row, but `{property}` is required: {way}"

    @variant
    def two_values(self, property: str, row: str, first: str, second: str, more: str) -> str:
        """Report that rows of a match would set a property of one row to different values."""
        help_ = "aggregate the values in a stage before, so that there is one"
        return f"{property} of {row} would get two values, {first} and {second}{more}: {help_}"

    @variant
    def write_of_deleted(self, type: str, rows: str) -> str:
        """Report that a statement writes rows that a delete after the same match has removed."""
        return f"{type} {rows}: a statement writes what another one after the same `match` deletes"

    @variant
    def bad_pattern(self, pattern: str, reason: str) -> str:
        """Report that a parameter that is a regular expression can't be compiled."""
        return f"`{pattern}` is not a regular expression: {reason}"

    @variant
    def bad_zone(self, zone: str) -> str:
        """Report that a parameter names a time zone that does not exist."""
        return f"there is no time zone `{zone}`: write one such as `Europe/Berlin` or `UTC`"

    @variant
    def has_cycle(self, cycle: tuple[str, ...]) -> str:
        """Report that edges go in a circle, where an order of nodes is asked for; `cycle` are its nodes."""
        shown = " -> ".join([*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]])
        return f"there is no topological order: {shown} is a cycle"

    @variant
    def algorithm_argument(self, name: str, value: str, reason: str) -> str:
        """Report that an argument of an algorithm is invalid; `reason` states what is expected."""
        return f"{name}={value}: {reason}"


class MissingError(OmnigraphError):
    """The thing that a call names does not exist: check the name."""

    kind = Kind.NOT_FOUND

    @variant
    def query_not_found(self, name: str, source: str, near: str | None, names: tuple[str, ...] = ()) -> str:
        """Report that a file has no query of this name; `near` was likely meant, `names` are its queries."""
        if not name:
            return f"`{source}` holds no query"
        return f"`{source}` holds no query `{name}`{_format_names(near, names)}"

    @variant
    def entity_not_found(self, type: str, id: str, branch: str, near: str | None) -> str:
        """Report that no node or edge of the type has or ever had that id; `near` is the id that was likely meant."""
        way_out = f"; did you mean `{near}`?" if near else ""
        return f"the branch `{branch}` has no {type} `{id}` in its history{way_out}"

    @variant
    def row_not_found(self, type: str, id: str) -> str:
        """Report that no node or edge of the type has this id."""
        return f"there is no {type} `{id}`"

    @variant
    def blob_property_not_found(self, type: str, property: str, known: tuple[str, ...]) -> str:
        """Report that the type has no Blob property of that name; `known` lists those it has."""
        listed = ", ".join(f"`{name}`" for name in known)
        existing = f"its Blob properties are {listed}" if known else "it has none"
        return f"`{type}` has no Blob property `{property}`; {existing}"

    @variant
    def column_not_found(self, type: str, column: str, near: str | None) -> str:
        """Report that a requested column does not exist in a type; `near` is the closest name, if any."""
        way_out = f"; did you mean `{near}`?" if near else ""
        return f"`{type}` has no column `{column}`{way_out}"

    @variant
    def embedding_not_declared(self, type: str, property: str | None, near: str | None) -> str:
        """Report that the type has no vector computed from a text, or the property is none; `near` was likely meant."""
        way_out = f"; did you mean `{near}`?" if near else ': declare one with @embed("text")'
        if property is None:
            return f"`{type}` has no vector that is computed from a text{way_out}"
        return f"`{type}.{property}` is not a vector that is computed from a text{way_out}"

    @variant
    def history_unrecorded(self, branch: str) -> str:
        """Report that the history of a branch has no digests, because an older release made it."""
        return (
            f"the commits of `{branch}` have no digests, since an older release began it: nothing can be proved."
            " `omnigraph check --record` makes one commit that records what is there, and digests begin with it"
        )

    @variant
    def directory_not_found(self, path: str, file: str) -> str:
        """Report that a file is to be written into a directory that does not exist."""
        return f"there is no directory `{path}` to write `{file}` in: make it first, or check the path"

    @variant
    def no_input(self, path: str, reason: str) -> str:
        """Report that a directory or pattern selects no file; `reason` states why."""
        return f"`{path}` names nothing to load: {reason}"

    @variant
    def input_not_on_executor(self, path: str, place: str, host: str) -> str:
        """Report that a file of a load exists on the driver, but an executor does not find it."""
        return (
            f"the executor on {host} did not find `{path}` at {place}, where the driver has it; put it"
            " where all machines of Spark see it, such as a shared directory or s3://"
        )


class FileMissingError(MissingError):
    """A file that was named on the command line or in a call does not exist."""

    kind = Kind.NOT_FOUND
    code = "file_not_found"
    path: str
    message = "there is no file `{path}`; check the path and the working directory"


class BadFileError(OmnigraphError):
    """A file can't be read as what it should be: correct it, or name another."""

    kind = Kind.INVALID

    @variant
    def not_a_file(self, path: str) -> str:
        """Report that a directory, or another object without text, was named where a file is needed."""
        return f"`{path}` is a directory; name a file in it"

    @variant
    def not_utf8(self, path: str, offset: int, byte: int) -> str:
        """Report that a text is not UTF-8; `offset` is the first invalid byte."""
        return f"`{path}` is not UTF-8: byte 0x{byte:02x} at offset {offset}; save it as UTF-8"

    @variant
    def table_unreadable(self, file: str, what: str, reason: str) -> str:
        """Report that a table or frame in memory can't be read as Arrow data; `what` is its Python type."""
        return f"{file}: the {what} can't be read: {reason}"


class FileDeniedError(OmnigraphError):
    """The permissions of a file do not allow the access."""

    kind = Kind.DENIED
    code = "file_denied"
    path: str
    action: str
    message = "no permission to {action} `{path}`; change its mode or run as its owner"


class FileUnreadableError(OmnigraphError):
    """The system can't read or write an existing file now."""

    kind = Kind.UNAVAILABLE
    code = "file_unreadable"
    path: str
    reason: str
    message = "can't read or write `{path}`: {reason}"


class OutputError(OmnigraphError):
    """The output of a command could not be written: a full disk, a closed file."""

    kind = Kind.UNAVAILABLE
    code = "output_failed"
    reason: str
    message = "can't write the output: {reason}"


class LimitError(OmnigraphError):
    """A limit of size or space was reached: ask for less, or raise it."""

    kind = Kind.EXHAUSTED

    @variant
    def text_too_large(self, path: str, limit: int) -> str:
        """Report that a schema or query text exceeds the size limit."""
        return f"`{path}` has more than {limit} bytes, the limit for a schema or query file; split it"

    @variant
    def count_overflow(self) -> str:
        """Report that there are more matches than a 64-bit number counts."""
        return "the query has more matches than a 64-bit number can count: filter it, or ask for fewer hops"

    @variant
    def check_scratch_failed(self, directory: str, reason: str) -> str:
        """Report that the temporary files of a check can't be written or read, most likely because the disk is full."""
        return (
            f"a check of many rows keeps eight bytes for each in `{directory}`, and that failed: {reason};"
            " free some space, set TMPDIR to a directory that has more, or check with --quick"
        )


class CorruptError(OmnigraphError):
    """The stored data is damaged, was changed outside of omnigraph, or has another format: run `omnigraph check`."""

    kind = Kind.CORRUPT

    @variant
    def manifest_rolled_back(self, branch: str, path: str, seq: int, reason: str) -> str:  # noqa: ARG002 - a fact
        """Report that a manifest has lost its newest versions, with commits: another object still names one."""
        return (
            f"the manifest of `{branch}` has lost its newest versions: {reason}. Nothing was changed: restore"
            f" the versions under `{path}` from a backup; or run `omnigraph repair`, which accepts the loss if"
            " forced"
        )

    @variant
    def graph_replaced(self, uri: str, seen: int, found: int) -> str:
        """Report that the graph was reset to an earlier state, or replaced, while a handle on it was open."""
        return (
            f"the manifest of {uri} was seen at version {seen} and is at {found} now: the graph was"
            " created again or restored from a copy while it was open. Open it again to use its current state"
        )

    @variant
    def sidecar_contradicted(self, key: str, path: str, version: str, branch: str) -> str:
        """Report that a sidecar's operation is not in the history, but a branch uses a table version that it made."""
        return (
            f"the sidecar `{key}` names no commit of the history, but `{branch}` uses version {version}"
            f" of {path}, which its operation created: the sidecar is damaged and left alone. Remove it while no"
            " process writes"
        )

    @variant
    def change_unreadable(self, commit_id: str, table_key: str, reason: str) -> str:
        """Report that the change set of a commit can't be computed: a table version before or after can't be read."""
        return (
            f"the changes of commit {commit_id} to {table_key} can't be read: {reason}."
            " To continue following, export a later snapshot and resume the feed after its commit"
        )

    @variant
    def dangling_edge(self, edge_type: str, end: str, node_id: str, edges: int) -> str:
        """Report that a stored edge names a node that its snapshot does not have."""
        more = f" (and {edges - 1} more)" if edges > 1 else ""
        return (
            f"an edge of {edge_type} has `{node_id}` as its {end}, but the snapshot has no such node"
            f"{more}: the tables were changed outside of omnigraph; run `omnigraph check`"
        )

    @variant
    def staged_write_unreadable(self, reason: str) -> str:
        """Report that the JSON of a staged write can't be decoded."""
        return f"a staged write can't be read: {reason}"


def _format_names(near: str | None, names: tuple[str, ...]) -> str:
    if near or not names:
        return f"; did you mean `{near}`?" if near else ""
    rest = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    return f"; it has {', '.join(f'`{name}`' for name in names[:MAX_LISTED_NAMES])}{rest}"
