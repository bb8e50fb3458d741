"""Errors of SQL statements, and DuckDB's errors in our terms: without paths, settings and file names of the host."""

import duckdb

from omnigraph.errors import Kind, OmnigraphError

# These describe the statement and its values. All others may name files and settings, and are replaced.
_ABOUT_THE_STATEMENT = (
    duckdb.ParserException,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.OutOfRangeException,
    duckdb.InvalidInputException,
    duckdb.NotImplementedException,
    duckdb.SyntaxException,
    duckdb.TypeMismatchException,
)
_MAX_CHARACTERS = 500
# How the texts of those begin that say why a statement ended.
_BY_BEGINNING: dict[str, type[duckdb.Error]] = {
    "Binder Error": duckdb.BinderException,
    "Conversion Error": duckdb.ConversionException,
    "INTERRUPT Error": duckdb.InterruptException,
    "Invalid Input Error": duckdb.InvalidInputException,
    "Mismatch Type Error": duckdb.TypeMismatchException,
    "Not implemented Error": duckdb.NotImplementedException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
    "Out of Range Error": duckdb.OutOfRangeException,
}


class SqlError(OmnigraphError):
    """A SQL statement can't be run as it is: change it."""

    kind = Kind.INVALID
    code = "sql_rejected"
    reason: str
    message = "the SQL statement was rejected: {reason}"


class SqlMemoryError(OmnigraphError):
    """A SQL statement needs more memory, or more disk space for what it spills, than it may use."""

    kind = Kind.EXHAUSTED
    code = "sql_memory"
    allowed: int
    """The limit in bytes; 0 without one, and then the memory of the machine."""

    def __str__(self) -> str:
        limit = f"its memory limit of {self.allowed:,} bytes" if self.allowed else "the memory of the machine"
        return (
            f"the SQL statement exceeds {limit}, also with spilling to disk:"
            " filter earlier, select fewer columns, or raise the budget"
        )


class SqlFailedError(OmnigraphError):
    """DuckDB failed for a reason that is not the statement's; the log has it."""

    kind = Kind.UNAVAILABLE
    code = "sql_failed"
    message = "DuckDB could not run the SQL statement; the log has the reason"


def translate_error(error: duckdb.Error, allowed: int) -> OmnigraphError:
    """Return the error that a caller sees instead of one of DuckDB's."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return SqlMemoryError(allowed)
    if isinstance(error, _ABOUT_THE_STATEMENT):
        return SqlError(format_reason(str(error)))
    return SqlFailedError()


def restore_error(error: OSError) -> duckdb.Error | None:
    """Return DuckDB's error that a stream of Arrow passed on as its text; None if it is another one."""
    text = str(error)
    class_ = _BY_BEGINNING.get(text.split(":", 1)[0])
    return None if class_ is None else class_(text)


def format_reason(text: str) -> str:
    """Return DuckDB's message in one line: without its class, and without the copy of the statement."""
    head = text.split("\n\nLINE ", 1)[0].split("\n\n", 1)[0]
    _, separator, rest = head.partition(" Error: ")
    reason = " ".join((rest if separator else head).split())
    return reason if len(reason) <= _MAX_CHARACTERS else f"{reason[:_MAX_CHARACTERS]}…"
