"""The client of a server: a graph over HTTP with the interface of the embedded one."""
