"""The storage layer, the only package that imports Lance: objects, tables, staged writes, table versions."""

from omnigraph.storage.pandas_later import import_pandas_later

import_pandas_later()  # before Lance is imported, which would import pandas
