#!/usr/bin/env bash
# Writes requirements.lock anew from the ranges in pyproject.toml: hashes, no index addresses.
set -euo pipefail
venv=${1:?usage: lock.sh VENV}
"$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev --all-extras \
  --no-emit-index-url --no-emit-find-links --no-header --upgrade --output-file requirements.lock pyproject.toml
