"""One quiet session, which is the active one where there is one."""

import pytest
from pyspark.sql import SparkSession

from omnigraph.spark.session import OtherMasterError, active_session, session


def test_the_active_session_is_used_as_it_is(spark: SparkSession) -> None:
    assert session() is spark
    assert active_session() is spark


def test_another_master_than_the_active_one_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OtherMasterError) as error:
        session("spark://elsewhere:7077")

    assert str(spark.sparkContext.master) in str(error.value)
    assert "spark://elsewhere:7077" in str(error.value)


def test_a_session_of_ours_is_calm(spark: SparkSession) -> None:
    context = spark.sparkContext

    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert context.uiWebUrl is None
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
