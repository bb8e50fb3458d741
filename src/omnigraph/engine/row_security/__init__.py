"""Row-level security: read a snapshot as if the rows that an actor does not see were deleted."""
