"""HTTP: the application, its middleware and routes, request bodies and responses."""
