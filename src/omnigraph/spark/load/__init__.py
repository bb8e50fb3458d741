"""Bulk loads on Spark: tasks that read, check and stage rows, and one commit by the driver."""
