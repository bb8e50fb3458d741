"""Physical operators of a query plan."""
