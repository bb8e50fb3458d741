"""Run SQL statements and queries on Spark, and return their results."""

from datetime import datetime

from omnigraph.engine.output.sql_columns import convert_table, find_duplicate_name
from omnigraph.engine.result import Result
from omnigraph.engine.result_forms import Target
from omnigraph.ops.query import QueryCall, build_target, resolve_snapshot
from omnigraph.ops.session import Session
from omnigraph.spark.query.query_result import fetch_result
from omnigraph.spark.read.fetched_rows import fetch_table
from omnigraph.spark.session.error_translation import surface_errors
from omnigraph.spark.session.spark_session import session as spark_session
from omnigraph.spark.spark_errors import SparkInputError
from omnigraph.spark.spark_graph import SparkGraph

NAME = "sql"


def execute(
    session: Session,
    statement: str,
    *,
    branch: str,
    snapshot: str | None,
    at: datetime | None,
    master: str | None,
) -> Result:
    """Run a SQL statement over one snapshot, and return its result; many rows are in a file, not in memory.

    Raises:
        SparkInputError: Spark rejects the statement, or its result can't be shown.
        BranchMissingError, CommitMissingError: There is no such snapshot.
        JavaMissingError, SparkFailedError, SparkUsageError: Spark can't be used.
    """
    state = session.checkout(branch).resolve_snapshot(commit_id=snapshot, at=at)
    spark = spark_session(master)
    with surface_errors():
        frame = SparkGraph(session, state, spark).sql(statement)
        _check_names(frame.columns)
    table = fetch_table(spark, frame, description="omnigraph spark sql")
    target = Target(branch=branch) if snapshot is None and at is None else Target(branch, state.commit.id)
    return Result.of_table(convert_table(table), commit_id=state.commit.id, target=target, query_name=NAME)


def execute_query(session: Session, call: QueryCall, master: str | None) -> Result:
    """Run a query of the language over one snapshot, and return its whole result.

    Raises:
        SourceError, MissingError, ParameterError, QueryError: The call is wrong; nothing was read.
        BranchMissingError, CommitMissingError: There is no such snapshot.
        SparkUsageError: Spark does not run a form of the query, which is named; nothing was read.
        JavaMissingError, SparkFailedError: Spark can't be used.
    """
    state = resolve_snapshot(session, call)
    graph = SparkGraph(session, state, master=master)
    rows = graph.query_rows(call)
    return fetch_result(rows, commit_id=state.commit.id, target=build_target(call, state))


def _check_names(names: list[str]) -> None:
    duplicate = find_duplicate_name(names)
    if duplicate is not None:
        raise SparkInputError.sql(
            f"two columns of the result are called `{duplicate}`; give each its own name with `as`"
        )
