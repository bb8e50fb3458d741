"""Run the command line by `python -m omnigraph`."""

import sys

from omnigraph.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
