"""The only room that knows Lance: objects, tables, staged writes, table versions."""

from omnigraph.storage.pandas_later import import_pandas_later

import_pandas_later()  # before lance is imported, which would import it
