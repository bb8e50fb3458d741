"""Reads on Spark: DataFrames, SQL views and exports of one snapshot."""
