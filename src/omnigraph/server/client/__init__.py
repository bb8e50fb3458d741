"""The HTTP client: a graph on a server, with the interface of an embedded graph."""
