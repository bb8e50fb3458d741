"""Spark pipeline: bulk loads, DataFrame and SQL reads, exports, maintenance and streaming."""
