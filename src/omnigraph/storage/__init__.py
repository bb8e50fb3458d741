"""The only room that knows Lance: objects, tables, staged writes, table versions."""
