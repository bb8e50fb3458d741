"""Install the wheel on every supported Python that this machine has, import all of it, and run the README's program.

    python tools/pythons.py            all versions
    python tools/pythons.py 3.12       only these

Interpreters are searched on PATH, among those that uv knows, and in pyenv. They import nothing from the repository:
each gets its own environment with the wheel, its extras, and the locked versions of what they need.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
# The oldest is that of `requires-python`; the newest may not be released yet, and is then reported as missing.
SUPPORTED = tuple((3, minor) for minor in range(11, 15))
EXTRAS = "frames,jupyter,langchain,llama-index,lsp,mcp,otel,server,spark"
BUILD = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
VERSION = "import sys; print(*sys.version_info[:3]); print(sys._base_executable)"
IMPORT_ALL = """
import importlib, pkgutil, sys
import omnigraph
found = pkgutil.walk_packages(omnigraph.__path__, "omnigraph.")
names = [module.name for module in found if "__main__" not in module.name]
for name in names:
    importlib.import_module(name)
for name in omnigraph.__all__:
    getattr(omnigraph, name)
assert "site-packages" in omnigraph.__file__, omnigraph.__file__
print(f"{len(names)} modules")
"""


def find_interpreters() -> dict[tuple[int, int], Path]:
    """Return an interpreter of each supported version; of several, the one that comes first on PATH."""
    interpreters: dict[tuple[int, int], Path] = {}
    for candidate in _iter_candidates():
        # A shim of pyenv is on PATH for every version that it has, and fails for those that are not selected.
        answer = subprocess.run([candidate, "-c", VERSION], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            version, executable = answer.stdout.splitlines()
            major, minor, _ = map(int, version.split())
            if (major, minor) in SUPPORTED:
                interpreters.setdefault((major, minor), Path(executable))
    return interpreters


def _iter_candidates() -> Iterator[str]:
    yield sys.executable
    for major, minor in SUPPORTED:
        if path := shutil.which(f"python{major}.{minor}"):
            yield path
    uv = [_find_uv(), "python", "list", "--only-installed", "--output-format", "json"]
    known = subprocess.run(uv, capture_output=True, text=True, check=False)
    if known.returncode == 0:
        yield from (entry["path"] for entry in json.loads(known.stdout))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob("versions/3.*/bin/python")))


def _find_uv() -> str:
    return str(Path(sys.executable).with_name("uv"))


def check_interpreter(interpreter: Path, wheel: Path, directory: Path) -> str:
    """Install the wheel for an interpreter, import every module, run the quick start; return what was imported."""
    subprocess.run([str(interpreter), "-m", "venv", str(directory)], check=True)
    python = str(directory / "bin" / "python")
    package = ["--constraint", str(LOCK), f"{wheel}[{EXTRAS}]"]
    # As in setup.sh: uv is quicker, but does not know pip's settings.
    if subprocess.run([_find_uv(), "pip", "install", "--quiet", "--python", python, *package], check=False).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", *package], check=True)
    imported = _run(python, IMPORT_ALL, directory)
    if "{'q.name': 'Grace'}" not in _run(python, _read_quick_start(), directory):
        message = f"the README's program prints something else on {interpreter}"
        raise SystemExit(message)
    return imported.strip()


def _run(python: str, program: str, directory: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", program], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def _read_quick_start() -> str:
    readme = (ROOT / "README.md").read_text("utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    return str(program)


def main(wanted: list[str]) -> None:
    """Check every version that is here, and report those that are not."""
    interpreters = find_interpreters()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        built = subprocess.run(
            [sys.executable, "-c", BUILD, str(scratch)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        wheel = scratch / built.stdout.split()[-1]
        for version in SUPPORTED:
            label = ".".join(map(str, version))
            if wanted and label not in wanted:
                continue
            if version not in interpreters:
                print(f"Python {label}: not on this machine")
                continue
            imported = check_interpreter(interpreters[version], wheel, scratch / label)
            print(f"Python {label}: {imported} imported, the quick start runs ({interpreters[version]})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
