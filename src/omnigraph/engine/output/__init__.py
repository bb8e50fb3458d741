"""The output stage of a query: aggregation, DISTINCT, ORDER BY, LIMIT and projection."""
