#!/usr/bin/env bash
# Makes the virtual environment: Python 3.11+, uv from PyPI, the locked dependencies, this package.
set -euo pipefail
venv=${1:?usage: setup.sh VENV}
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "omnigraph needs Python 3.11 or newer; '$python' is $("$python" --version 2>&1 || echo missing)." >&2
  echo "Install one (Debian: apt-get install python3 python3-venv) or name it: make test PYTHON=python3.12" >&2
  exit 1
fi
if [ ! -x "$venv/bin/python" ]; then
  "$python" -m venv "$venv" || { echo "can't make a virtual environment (Debian: apt-get install python3-venv)" >&2; exit 1; }
fi
[ -x "$venv/bin/uv" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
"$venv/bin/uv" pip sync --quiet --python "$venv/bin/python" --require-hashes requirements.lock
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --editable .
