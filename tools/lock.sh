#!/usr/bin/env bash
# Writes the locks anew from the ranges in pyproject.toml: hashes for each, no index addresses.
# `lock.sh VENV` takes the newest versions; `lock.sh VENV --keep` keeps those that still fit.
set -euo pipefail
venv=${1:?usage: lock.sh VENV [--keep]}
upgrade=--upgrade
[ "${2:-}" = --keep ] && upgrade=
compile=("$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes
  --no-emit-index-url --no-emit-find-links --no-header $upgrade)
"${compile[@]}" --group dev --all-extras --output-file requirements.lock pyproject.toml
"${compile[@]}" --constraint requirements.lock --group bench --output-file requirements-bench.lock
if grep -nE '://|--(extra-)?index-url|--find-links' requirements.lock requirements-bench.lock; then
  echo "a lock names an index; it must not" >&2
  exit 1
fi
