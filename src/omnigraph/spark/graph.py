"""A graph's door to Spark: its types as DataFrames and views of one snapshot, loads, streams and exports."""

from collections.abc import Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from omnigraph.commit.records import Snapshot
from omnigraph.lang.suggest import closest
from omnigraph.ops.session import Session
from omnigraph.ops.table import TypeMissingError
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.spark.place import Place
from omnigraph.spark.scan import plan_scan, type_named
from omnigraph.spark.session import session as spark_session
from omnigraph.spark.source import NAME, STORAGE, register
from omnigraph.spark.sql import run_sql


class SparkGraph:
    """One state of a graph, for Spark. All that is read through it is of that state, whatever is written meanwhile."""

    def __init__(self, session: Session, snapshot: Snapshot, spark: SparkSession | None = None) -> None:
        self._session, self._snapshot = session, snapshot
        self._given = spark

    @property
    def spark(self) -> SparkSession:
        """The session that everything runs in: the active one, or one that is made when it is first needed."""
        if self._given is None:
            self._given = spark_session()
        return register(self._given)

    @property
    def commit_id(self) -> str:
        """The commit whose state this is."""
        return self._snapshot.commit.id

    def at(self, *, snapshot: str | None = None, at: datetime | None = None) -> "SparkGraph":
        """The same for another state: the newest, that of a commit's id, or that of an instant."""
        return SparkGraph(self._session, self._session.snapshot(commit_id=snapshot, at=at), self._given)

    @property
    def _catalog(self) -> Catalog:
        return self._session.catalog(self._snapshot)

    # --- reading ---------------------------------------------------------------------------------

    def table(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows of a node or edge type.

        Only `columns` are read, and only rows for which `where` is true, a predicate of the query language such as
        `age > 30 or name starts_with "A"`. Say both here, or use `sql`, which finds out by itself: Spark does not
        tell a source what the later steps of a DataFrame need.

        Raises:
            TypeMissingError, ColumnMissingError: There is no such thing.
            SourceError: The predicate has mistakes.
        """
        return self._frame(type_named(self._catalog, type_name), columns, where)

    def edges(self, type_name: str, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The edges of a type: `id`, `src`, `dst` and its properties. Otherwise as `table`."""
        found = self._catalog.edge(type_name)
        if found is None:
            raise TypeMissingError(type_name, closest(type_name, self._catalog.edges))
        return self._frame(found, columns, where)

    def sql(self, text: str) -> DataFrame:
        """The answer of a SQL statement, in which every type is a table of this state.

        Only the columns that the statement uses are read, and where its conditions allow it only rows that they let
        pass. Other tables and views of the session can be used too, unless a type has their name.
        """
        return run_sql(self.spark, text, self._catalog, lambda type_, use: self._frame(type_, use.columns, use.where))

    def _frame(self, type_: AnyType, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        plan_scan(self._session, self._snapshot, type_, columns, where)  # mistakes are told here, not by a task
        place = Place.of(self._session)
        options = {
            "graph": place.uri,
            "type": type_.name,
            "snapshot": self.commit_id,
            "partitions": str(self.spark.sparkContext.defaultParallelism),
        }
        if columns is not None:
            options["columns"] = ",".join(columns)
        if where is not None:
            options["filter"] = where
        if (storage := place.storage_text()) is not None:
            options[STORAGE] = storage
        return self.spark.read.format(NAME).options(**options).load()
