"""The one Spark that all tests of a process share: starting one takes longer than most of them."""

from pyspark.sql import SparkSession

from omnigraph.spark.session.spark_session import session

MASTER = "local[2,2]"
"""Two cores; a task that fails is tried once more."""
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # to compile a query of ten rows takes many times longer than to run it
}


def shared_spark() -> SparkSession:
    """The session, which this starts if need be. Whoever changes its settings changes them back."""
    return session(MASTER, **QUICK)
