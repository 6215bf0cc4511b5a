"""Logs in S3: how many requests listing and reading take, counted at the server (moto's, in a
thread).

A listing may take one request for each thousand files, and two; who goes through a file reads at
least 4 MiB at once, but for its end. What is read twice is a batch that lies across the end of a
block.
"""

from __future__ import annotations

import importlib.util
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pytest
from support.logs.log_folders import batches
from support.peers.peers import require
from support.waiting import PROGRAM_S

from kmirror.cli.kmirror import main as kmirror_main
from kmirror.cli.log_diff import main as log_diff_main
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.spark.data_source import KafkaLogReader
from kmirror.spark.files import READ_AHEAD
from kmirror.spark.options import ReadOptions

pytestmark = [pytest.mark.interop, pytest.mark.timeout(PROGRAM_S)]

PARTITIONS: Final = 450
FILES: Final = 3 * PARTITIONS
LOCAL: Final = ("--engine", "local")


class Server:
    """The requests that came since `forget`."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log_request(self, *arguments: Any) -> None:
                """Not a line a request."""

        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._count, threaded=True, request_handler=Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.requests: list[tuple[str, str, str, str]] = []
        """(method, path, query, range)"""

    def _count(self, environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        names = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_RANGE")
        method, path, query, span = (environment.get(name, "") for name in names)
        self.requests.append((method, path, query, span))
        answer: Iterable[bytes] = self._application(environment, start)
        return answer

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()

    def uri(self, folder: str) -> str:
        return f"s3://logs/{folder}?endpoint_override=127.0.0.1:{self._server.server_address[1]}&scheme=http&region=us-east-1"

    @property
    def listing(self) -> list[str]:
        """Requests that ask what there is."""
        return [f"{path}?{query}" for method, path, query, span in self.requests if not span and not _is_opening(method, path)]

    @property
    def openings(self) -> int:
        """How often the segment's file that was opened most often was: opening asks for the size."""
        return max(Counter(path for method, path, _, _ in self.requests if _is_opening(method, path)).values(), default=0)

    @property
    def reads(self) -> list[tuple[str, int, int]]:
        """(path, first byte, bytes)"""
        found = [(path, re.fullmatch(r"bytes=(\d+)-(\d+)", span)) for _, path, _, span in self.requests if span]
        return [(path, int(match[1]), int(match[2]) + 1 - int(match[1])) for path, match in found if match]


def _is_opening(method: str, path: str) -> bool:
    return method == "HEAD" and "/00000000000000000000." in path


@pytest.fixture(scope="module")
def store() -> Iterator[Server]:
    require(importlib.util.find_spec("moto") and importlib.util.find_spec("flask_cors"), "moto is not installed (the dev extra)")
    server = Server()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        put_logs(server)
        yield server
    server.close()


def put_logs(server: Server) -> None:
    """`many` and its `copy`: small partitions; `large-a` and `large-b`: one of 9 MB.

    Put by the server's own hand: a request a file would take longer than all else.
    """
    from pyarrow.fs import FileSystem

    files, _ = FileSystem.from_uri(server.uri("") + "&allow_bucket_creation=true")
    files.create_dir("logs")
    from moto.s3.models import s3_backends

    backend = next(one for account in s3_backends.values() for one in account.values() if "logs" in one.buckets)
    small = b"".join(batches(2))
    for number in range(PARTITIONS):
        for suffix in (".log", ".index", ".timeindex"):
            for folder in ("many", "copy"):
                backend.put_object("logs", f"{folder}/t-{number}/{0:020d}{suffix}", small if suffix == ".log" else b"")
    chance = random.Random(1)
    large = [
        build_batch([Record(offset, 1, None, chance.randbytes(20_000), []) for offset in range(first, first + 5)], base_offset=first)
        for first in range(0, 475, 5)
    ]
    for folder in ("large-a", "large-b"):
        backend.put_object("logs", f"{folder}/u-0/{0:020d}.log", b"".join(large))
    server.requests.clear()


def rows(location: str, **options: str) -> int:
    reader = KafkaLogReader(ReadOptions.parse({"path": location, **options}))
    return sum(table.num_rows for task in reader.partitions() for table in reader.read(task))


def limit(files: int) -> int:
    return files // 1000 + 2


def test_listing_takes_a_request_a_thousand_files_and_two(store: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is anything asked about a single file that was listed: `kmirror verify-logs` made eight
    requests a partition. `kafka-log-diff` lists each side again when it has compared the logs: the
    set of them is judged as it is then.
    """
    many = store.uri("many")
    planned = KafkaLogReader(ReadOptions.parse({"path": many, "subscribe": "t"}))
    for work, listings in (
        (lambda: sum(len(task.pieces) for task in planned.partitions()) == PARTITIONS, 1),
        (lambda: log_diff_main([many, store.uri("copy"), "--engine", "local", "--partitions", "0-1"]) == 0, 4),
        (lambda: kmirror_main(["verify-logs", many, "--partitions", "0-1", *LOCAL]) == 1, 1),
    ):
        store.requests.clear()
        assert work(), capsys.readouterr().err
        assert len(store.listing) <= listings * limit(FILES), store.listing[:20]


@pytest.mark.parametrize("what", ["read", "count", "verify", "diff"])
def test_who_goes_through_a_file_reads_four_megabytes_at_once(store: Server, what: str) -> None:
    one, other = store.uri("large-a"), store.uri("large-b")
    store.requests.clear()
    if what == "read":
        assert rows(one, columns="key,value") == 475
    elif what == "count":
        assert rows(one, rows="batch", columns="record_count") == 95
    elif what == "verify":
        kmirror_main(["verify-logs", one, *LOCAL])
        assert store.openings == 1
    else:
        assert log_diff_main([one, other, "--engine", "local"]) == 0
    ends = {path: max(first + size for at, first, size in store.reads if at == path) for path, _, _ in store.reads}
    assert len(ends) == (2 if what == "diff" else 1) and set(ends.values()) == {9_511_020}
    small = [(path, first, size) for path, first, size in store.reads if size < READ_AHEAD and first + size < ends[path]]
    assert not small, small
    passes = 2 if what == "diff" else 1  # equal logs are walked once more, for where their batches end
    assert len(store.reads) <= 3 * passes * len(ends), store.reads
