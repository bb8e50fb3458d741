"""The storage layer, the only package that imports Lance: objects, tables, staged writes, table versions."""
