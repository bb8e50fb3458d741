"""What a schema means: types, the catalog, its binding, identities, codec, migration plans, lint. No I/O."""
