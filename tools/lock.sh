#!/usr/bin/env bash
# Writes requirements.lock anew from the ranges in pyproject.toml: hashes for each, no index addresses.
# `lock.sh VENV` takes the newest versions; `lock.sh VENV --keep` keeps those that still fit.
set -euo pipefail
venv=${1:?usage: lock.sh VENV [--keep]}
upgrade=--upgrade
[ "${2:-}" = --keep ] && upgrade=
"$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --group dev --all-extras \
  --no-emit-index-url --no-emit-find-links --no-header $upgrade --output-file requirements.lock pyproject.toml
if grep -nE '://|--(extra-)?index-url|--find-links' requirements.lock; then
  echo "requirements.lock names an index; it must not" >&2
  exit 1
fi
