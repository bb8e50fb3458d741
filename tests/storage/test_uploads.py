"""Files that are written in the background: who waits for them, and who hears of their errors."""

import threading

import pytest

from omnigraph.storage.uploads import Uploads


def fail() -> None:
    raise ValueError("refused")


def test_a_file_is_written_while_its_writer_goes_on() -> None:
    uploads, may_end, written = Uploads(), threading.Event(), list[str]()

    def put() -> None:
        assert may_end.wait(60)
        written.append("a")

    uploads.start("g/t/a", put)
    assert not written
    may_end.set()
    uploads.wait(["g/t/a", "g/t/other"])

    assert written == ["a"]


def test_the_error_of_a_file_reaches_those_who_need_it_until_it_is_removed() -> None:
    uploads = Uploads()
    uploads.start("g/t/a", fail)

    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            uploads.wait(["g/t/a"])
    uploads.wait(["g/t/b"])
    uploads.discard("g/t/a")

    uploads.wait(["g/t/a"])


def test_a_reader_waits_for_its_table_only_and_hears_no_error() -> None:
    uploads, may_end = Uploads(), threading.Event()
    uploads.start("g/other/a", lambda: may_end.wait(60))
    uploads.start("g/t/a", fail)

    uploads.wait_below("g/t/")

    may_end.set()
    uploads.wait(["g/other/a"])


def test_a_file_that_is_removed_is_not_written_afterwards() -> None:
    uploads, steps = Uploads(), list[str]()
    begun = threading.Event()

    def put() -> None:
        begun.set()
        steps.append("written")

    uploads.start("g/t/a", put)
    uploads.discard("g/t/a")
    steps.append("removed")

    assert begun.is_set()
    assert steps == ["written", "removed"]
