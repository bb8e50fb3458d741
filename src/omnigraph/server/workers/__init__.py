"""The processes of a server that uses several cores: a parent that opens no graph, and its workers."""
