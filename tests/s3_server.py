"""An S3 server on loopback that the tests start themselves."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "omnigraph-tests"
_numbers = count(1)


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """A running server with one bucket; yields the storage options that reach it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = options_for(f"http://{host}:{port}")
        client = boto3.client(
            "s3",
            endpoint_url=options["aws_endpoint"],
            region_name=options["aws_region"],
            aws_access_key_id=options["aws_access_key_id"],
            aws_secret_access_key=options["aws_secret_access_key"],
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        yield options
    finally:
        server.stop()


def options_for(endpoint: str) -> dict[str, str]:
    """Storage options for a server on loopback."""
    return {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


def fresh_uri() -> str:
    """A prefix that no other test uses."""
    return f"s3://{BUCKET}/graph-{next(_numbers)}"
