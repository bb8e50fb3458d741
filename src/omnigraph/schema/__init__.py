"""The schema: value types, catalog, binder, identities, codec, migration plans, merge and lint. No I/O."""
