"""Run a SQL statement on one snapshot, within a time and memory budget."""

from omnigraph.engine.duckdb.run_statement import SqlLimits, run_statement
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.engine.view import View
from omnigraph.errors import LimitError
from omnigraph.ops.query import MAX_PARAMS, QueryCall, build_target, resolve_snapshot, start_budget
from omnigraph.ops.session import Session, with_budget
from omnigraph.query.params import ParameterError, ParameterProblem

NAME = "sql"


def run_sql(session: Session, call: QueryCall, budget: Budget | None = None) -> Result:
    """Run a statement over the types of a snapshot; `call.source` is the statement. All rows are fetched.

    Raises:
        SqlError, LimitError, ParameterError, BadArgumentError: The call is wrong.
        BranchMissingError, CommitMissingError: There is no such state.
        SqlMemoryError, QueryMemoryError, QueryTimeoutError, QueryCancelledError: The budget ran out.
        SqlFailedError: DuckDB failed.
    """
    snapshot = resolve_snapshot(session, call, hides_rows=True)
    budget = budget or start_budget(session, call)
    options = session.runtime.options
    if len(call.source.text) > options.query_text_characters:
        raise LimitError.text_too_large("statement", options.query_text_characters)
    if len(call.params) > MAX_PARAMS:
        problem = f"{len(call.params):,} parameters are given, and a statement takes at most {MAX_PARAMS:,}"
        raise ParameterError([ParameterProblem("*", problem)])
    # Tables of this session end with the budget; they are not cached.
    view = View(session.load_catalog(snapshot), with_budget(session, budget).open_tables(snapshot))
    limits = SqlLimits(spill_bytes=options.spill_bytes, threads=options.threads)
    table = run_statement(view, call.source.text, call.params, budget, limits, call.progress)
    return Result.of_table(table, commit_id=snapshot.commit.id, target=build_target(call, snapshot), query_name=NAME)
