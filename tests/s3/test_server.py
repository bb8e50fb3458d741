"""The S3 server of the tests keeps what commits rely on: of many who create one key, one does."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from s3_server import BUCKET, plain_client, s3_server

WRITERS, KEYS = 4, 25


def test_one_of_many_creates_a_key() -> None:
    start = threading.Barrier(WRITERS)
    between = sys.getswitchinterval()

    def create_all(options: dict[str, str]) -> list[int]:
        client = plain_client(options)
        created = []
        for key in range(KEYS):
            start.wait(60)
            try:
                client.put_object(Bucket=BUCKET, Key=f"key-{key}", Body=b"x" * 2000, IfNoneMatch="*")
                created.append(key)
            except client.exceptions.ClientError as error:
                assert error.response["Error"]["Code"] == "PreconditionFailed"  # noqa: PT017 - of some, and of no other kind
        return created

    try:
        sys.setswitchinterval(1e-5)
        with s3_server() as options, ThreadPoolExecutor(WRITERS) as writers:
            created = [key for found in writers.map(create_all, [options] * WRITERS) for key in found]
    finally:
        sys.setswitchinterval(between)

    assert sorted(created) == list(range(KEYS))
