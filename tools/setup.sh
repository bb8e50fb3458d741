#!/usr/bin/env bash
# Makes a virtual environment: Python 3.11+, uv, the locked dependencies, this package.
# `setup.sh VENV` for everything but `make bench`; `setup.sh VENV requirements-bench.lock` adds the peers to that.
# Does nothing when the environment was made from the same lock, by the same Python, at the same place.
set -euo pipefail
venv=${1:?usage: setup.sh VENV [MORE.lock]}
locks=(requirements.lock ${2:+"$2"})
python=${PYTHON:-python3}
uv_version=0.13.7

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "omnigraph needs Python 3.11 or newer; '$python' is $("$python" --version 2>/dev/null || echo missing)." >&2
  echo "Install one (Debian: apt-get install python3 python3-venv) or name it: make test PYTHON=python3.12" >&2
  exit 1
fi
# The interpreter behind an activated environment, which may be the very one that is made anew.
python=$("$python" -c 'import sys; print(sys._base_executable)')

# Two makes at once must not install into one environment; where there is no flock, don't do that.
if command -v flock >/dev/null; then
  exec 9>"$venv.lock"
  flock 9
fi

made_from="$(cat "${locks[@]}" pyproject.toml tools/setup.sh | cksum) $PWD $("$python" -c 'import sys; print(sys.version)')"
if [ "$(cat "$venv/.ready" 2>/dev/null)" = "$made_from" ] && "$venv/bin/python" -c '' 2>/dev/null; then
  exit 0
fi
echo "setting up $venv (a minute or two the first time)" >&2
rm -f "$venv/.ready"

version='import sys; print(sys.version_info[:2], sys.base_prefix)'
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1 || [ "$("$venv/bin/python" -c "$version")" != "$("$python" -c "$version")" ]; then
  if ! "$python" -m venv --clear "$venv"; then
    rm -rf "$venv"
    echo "'$python' can't make a virtual environment (Debian: apt-get install python3-venv)" >&2
    exit 1
  fi
fi
if [ "$("$venv/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$uv_version" ]; then
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
fi
# uv is quicker and removes what is no longer locked, but does not know pip's settings (a mirror, a certificate).
if ! "$venv/bin/uv" pip sync --quiet --python "$venv/bin/python" --require-hashes "${locks[@]}"; then
  echo "uv could not install the locked packages; trying pip" >&2
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "${locks[@]/#/--requirement=}"
fi
# The build tools are locked too: without isolation nothing is fetched that the lock does not name.
"$venv/bin/uv" pip install --quiet --offline --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
# Spark needs Java. The lock brings one along for machines without; where that does not start either, say so now.
if ! java=$("$venv/bin/python" -c 'from omnigraph.spark.session.java_runtime import detect_java; detect_java()' 2>&1); then
  echo "${java##*Error: } (everything but Spark works without)" >&2
fi
echo "$made_from" >"$venv/.ready"
