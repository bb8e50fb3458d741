"""Azurite on loopback, which the tests start themselves: Microsoft's emulator of Azure's storage, from npm.

`npm install azurite` installs it; `OMNIGRAPH_AZURITE` names its program `azurite-blob`, else the path is searched.
"""

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import count

import pytest

CONTAINER = "omnigraph-tests"
ACCOUNT = "devstoreaccount1"
# Azurite's own, which its documentation prints.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_numbers = count(1)


@contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """A running server with one container; yields the storage options that reach it."""
    program = os.environ.get("OMNIGRAPH_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("there is no azurite-blob: npm install azurite, and set OMNIGRAPH_AZURITE")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    words = [
        "--silent",
        "--disableTelemetry",
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--blobHost",
        "127.0.0.1",
    ]
    process = subprocess.Popen([program, *words, "--blobPort", str(port)], stdout=subprocess.DEVNULL)
    try:
        endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        _create_container(endpoint, process)
        yield {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_storage_endpoint": endpoint,
            "allow_http": "true",
        }
    finally:
        process.kill()
        process.wait()


def fresh_azure_uri() -> str:
    """A prefix that no other test uses."""
    return f"az://{CONTAINER}/graph-{next(_numbers)}"


def _create_container(endpoint: str, process: "subprocess.Popen[bytes]") -> None:
    """Create the container, as soon as the server answers."""
    headers = {"x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"), "x-ms-version": "2021-08-06"}
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    signed = "\n".join([*lines, f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}", "restype:container"])
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    request = urllib.request.Request(f"{endpoint}/{CONTAINER}?restype=container", method="PUT", headers=headers)  # noqa: S310 - loopback
    while True:
        try:
            urllib.request.urlopen(request).close()  # noqa: S310 - as above
        except urllib.error.URLError:
            assert process.poll() is None, "azurite has ended"
            time.sleep(0.1)
        else:
            return
