"""An S3 server on loopback that the tests start themselves."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BUCKET = "omnigraph-tests"
_numbers = count(1)


@contextmanager
def s3_server(latency_seconds: float = 0.0) -> Iterator[dict[str, str]]:
    """A running server with one bucket; yields the storage options that reach it. Each request waits for so long.

    It serves S3 and nothing else: moto's own server looks for the service of each request in hundreds of directories.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = one_at_a_time(create_backend_app("s3"), latency_seconds)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        options = options_for(f"http://{server.host}:{server.port}")
        with closing(plain_client(options)) as client:
            client.create_bucket(Bucket=BUCKET)
        yield options
    finally:
        server.shutdown()
        thread.join()


def one_at_a_time(app: "WSGIApplication", latency_seconds: float) -> "WSGIApplication":
    """The app for threads: moto itself lets two requests pass `If-None-Match` for one key, which S3 never does."""
    working = threading.Lock()

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        # Whoever sends slowly, or dies while sending, keeps nobody waiting.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        time.sleep(latency_seconds)
        with working:
            return app({**environ, "wsgi.input": BytesIO(body)}, start_response)

    return answer


def options_for(endpoint: str) -> dict[str, str]:
    """Storage options for a server on loopback."""
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


def plain_client(options: dict[str, str]) -> Any:
    """A client that sends what it is told, unlike ours."""
    return boto3.client(
        "s3",
        endpoint_url=options["aws_endpoint"],
        region_name=options["aws_region"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
    )


def fresh_uri() -> str:
    """A prefix that no other test uses."""
    return f"s3://{BUCKET}/graph-{next(_numbers)}"


def uploaded(graph: Path) -> str:
    """A copy of a graph on disk, where it took a fraction of the time to make."""
    store, target = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], fresh_uri()
    for path in graph.rglob("*"):
        if path.is_file():
            store.put_object(
                BUCKET, f"{target.removeprefix(f's3://{BUCKET}/')}/{path.relative_to(graph)}", path.read_bytes()
            )
    return target


def copied(uri: str) -> str:
    """A copy of a graph, made inside the server: nothing in a graph says where it is."""
    store, target = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], fresh_uri()
    before, after = (place.removeprefix(f"s3://{BUCKET}/") for place in (uri, target))
    for name in [name for name in store.get_bucket(BUCKET).keys if name.startswith(f"{before}/")]:
        there = store.get_object(BUCKET, name)
        assert there is not None
        store.put_object(BUCKET, after + name.removeprefix(before), there.value)
    return target
