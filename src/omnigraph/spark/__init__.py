"""The data pipeline on Spark: bulk loads, reads as DataFrames and SQL, exports, upkeep, streams."""
