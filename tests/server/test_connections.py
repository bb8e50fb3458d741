"""A client that opens a connection and takes its time for the headers is cut; one that is quick is answered."""

import asyncio

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from omnigraph.server.http.connections import ConnectionLimit, HeadHoldingTransport, build_protocol

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SECONDS = 60.0
"""How long a test waits for what has to happen at some time."""


async def hello(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def told(pieces: list[bytes], headers_seconds: float) -> bytes:
    """What a client hears that sends these pieces, until the connection ends."""
    config = Config(
        hello,
        http=build_protocol(headers_seconds, ConnectionLimit(100)),
        log_config=None,
        lifespan="off",
        timeout_keep_alive=1,
    )
    config.load()
    loop, state = asyncio.get_running_loop(), ServerState()
    protocol = build_protocol(headers_seconds, ConnectionLimit(100))
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        found = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        return found


@pytest.mark.parametrize(
    "pieces",
    [[], [b"G"], [WHOLE[:-2]], [WHOLE[:5], WHOLE[5:9], WHOLE[9:-1]]],
    ids=["nothing", "a byte", "almost all", "in pieces"],
)
def test_headers_that_do_not_come_end_the_connection(pieces: list[bytes]) -> None:
    assert asyncio.run(told(pieces, 0.05)) == b""


def test_a_second_request_that_is_begun_and_not_finished_ends_the_connection() -> None:
    answer = asyncio.run(told([WHOLE, WHOLE[:-2]], 0.2))

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


def test_bytes_that_trickle_in_do_not_buy_time() -> None:
    async def trickle() -> int:
        config = Config(
            hello, http=build_protocol(0.2, ConnectionLimit(100)), log_config=None, lifespan="off", timeout_keep_alive=1
        )
        config.load()
        loop, state, protocol = asyncio.get_running_loop(), ServerState(), build_protocol(0.2, ConnectionLimit(100))
        async with await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            sent = 0
            while not reader.at_eof() and sent < SECONDS / 0.01:
                try:
                    writer.write(b"x")
                    await writer.drain()
                except ConnectionError:
                    break
                sent += 1
                await asyncio.sleep(0.01)
            writer.close()
            return sent

    assert asyncio.run(trickle()) < SECONDS / 0.01


def test_a_connection_beyond_the_limit_takes_the_place_of_the_one_that_idles_longest() -> None:
    async def connect(limit: ConnectionLimit) -> list[bytes]:
        protocol = build_protocol(60, limit)
        config = Config(hello, http=protocol, log_config=None, lifespan="off", timeout_keep_alive=60)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            first, second, third = [await asyncio.open_connection(*address) for _ in range(3)]
            ended = await asyncio.wait_for(first[0].read(), SECONDS)
            answers = [ended]
            for reader, writer in (third, second):
                writer.write(WHOLE)
                answers.append(await asyncio.wait_for(reader.readuntil(b"ok"), SECONDS))
            for _, writer in (first, second, third):
                writer.close()
        return answers

    limit = ConnectionLimit(2)
    ended, *answers = asyncio.run(connect(limit))

    assert ended == b""
    assert [answer.startswith(b"HTTP/1.1 200") for answer in answers] == [True, True]


def test_connections_are_counted_until_they_end() -> None:
    limit = ConnectionLimit(2)

    async def connect() -> int:
        protocol = build_protocol(60, limit)
        config = Config(hello, http=protocol, log_config=None, lifespan="off", timeout_keep_alive=60)
        config.load()
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(WHOLE)
            await reader.readuntil(b"ok")
            busiest = limit.count
            writer.close()
            # The server learns of it in one of the next turns of the loop.
            async with asyncio.timeout(SECONDS):
                while limit.count:  # noqa: ASYNC110 - the protocol has no event for it
                    await asyncio.sleep(0.01)
        return busiest

    assert asyncio.run(connect()) == 1
    assert not limit.idle


class _Recorder(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.is_closed = True


def test_an_answer_is_one_write_and_the_head_of_a_stream_is_not_held() -> None:
    recorder = _Recorder()
    transport = HeadHoldingTransport(recorder)
    head = b"HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\n"
    transport.write(head)
    transport.write(b"{}")
    transport.write(b"")
    assert [text for text in recorder.writes if text] == [head + b"{}"]
    chunked = b"HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n"
    transport.write(chunked)
    assert recorder.writes[-1] == chunked
    transport.write(head)
    transport.close()
    assert recorder.writes[-1] == head
    assert recorder.is_closed
