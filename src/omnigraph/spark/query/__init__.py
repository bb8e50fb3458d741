"""Queries on Spark: the relational tree of a read as Spark SQL, over the types of one snapshot as DataFrames."""
