"""kafka-dump-log: prints what is in Kafka's files, as Apache Kafka 4.3's tool does, byte for byte.

    kafka-dump-log --files a.log,b.index [--deep-iteration] [--print-data-log] [--<topic>-decoder] [--json]

It reads segments, KRaft snapshots, indexes, transaction indexes and producer snapshots. Differences
from Kafka's tool: files are only ever opened for reading; an error is one line, not a stack trace;
`--mirror-state-decoder` (KIP-1279) reads `__mirror_state`; MIRROR_PID_RESET control records are
shown with their fields; `--json` prints JSON lines; `--remote-log-metadata-decoder` is refused.
Secrets in the cluster's metadata are `(redacted)` without `--show-secrets`, even where records are
printed as they are. A leader epoch is printed as the batch has it: no CRC covers it, and it is held
against nothing (`kmirror verify-logs` does that). Such files are recognised by their names: files in `__cluster_metadata-0`, and
snapshots (`.checkpoint`). A metadata segment that was copied elsewhere is not recognised. The exit
status is 1 on an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.cli.dump_log_options import DESCRIPTION, HELP, STRING_DECODER, OptionError, Options, parse
from kmirror.cli.user_errors import USER_ERRORS, exit_code

if TYPE_CHECKING:
    from kmirror.cli.dump_log_decoders import Concealer, Decoder
    from kmirror.cli.dump_log_indexes import IndexProblems

KAFKA_VERSION = "4.3.0"
_FLUSH_BYTES = 1 << 20


class Output:
    """Buffered standard output; an error line comes after everything that was printed before it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """OSError if it cannot be written, and when more is written after that."""
        out = sys.stdout.buffer
        parts, self._parts, self._size = self._parts, [], 0
        for part in parts:
            out.write(part)
        out.flush()

    def error(self, line: str) -> None:
        self.flush()
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def main(argv: list[str] | None = None) -> int:
    """Run with the arguments after the program's name; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    return exit_code(lambda: _run_and_flush(arguments))


def _run_and_flush(arguments: list[str]) -> int:
    output = Output()
    try:
        status = _run(arguments, output)
        output.flush()
        return status
    except OptionError as error:
        output.error(str(error))
        if error.show_help:
            sys.stderr.write(HELP)
        return 1
    except USER_ERRORS:
        output.flush()
        raise


def _run(arguments: list[str], output: Output) -> int:
    options = parse(arguments)
    if "help" in options.flags or not arguments:
        sys.stderr.write(f"{DESCRIPTION}\n{HELP}")
        return 1
    if "version" in options.flags:
        output.write(f"{KAFKA_VERSION}\n".encode())
        return 0
    from kmirror.cli.dump_log_indexes import IndexProblems

    problems = IndexProblems()
    gaps: dict[str, list[tuple[int, int]]] = {}
    dump_one = _dump_json if "json" in options.flags else _dump_text
    for path in options.files:
        dump_one(path, options, output, problems, gaps)
    for line in problems.lines():
        output.error(line)
    for path, pairs in gaps.items():
        output.error(f"Non-consecutive offsets in {path}")
        for before, after in pairs:
            output.error(f"  {before} is followed by {after}")
    return 0


def _suffix(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name[name.rfind(".") :] if "." in name else ""


def _dump_text(path: str, options: Options, output: Output, problems: IndexProblems, gaps: dict[str, list[tuple[int, int]]]) -> None:
    from kmirror.cli import dump_log_batches, dump_log_indexes
    from kmirror.runtime.os_files import OsFileSystem

    output.write(f"Dumping {path}\n".encode("utf-8", "surrogateescape"))
    files = OsFileSystem()
    absolute = os.path.abspath(path)
    suffix = _suffix(path)
    if suffix in (".log", ".checkpoint"):
        found = dump_log_batches.dump_log(files, path, options, _decoder(options, _concealer(path, options)), output.write)
        if found:
            gaps.setdefault(absolute, []).extend(found)
    elif suffix == ".index":
        dump_log_indexes.dump_index(files, path, options, problems, output.write, absolute)
    elif suffix == ".timeindex":
        dump_log_indexes.dump_time_index(files, path, options, problems, output.write, absolute)
    elif suffix == ".snapshot":
        error = dump_log_indexes.dump_producer_snapshot(files, path, output.write)
        if error is not None:
            output.error(error)
    elif suffix == ".txnindex":
        dump_log_indexes.dump_transaction_index(files, path, output.write)
    else:
        output.error(f"Ignoring unknown file {path}")


def _dump_json(path: str, options: Options, output: Output, problems: IndexProblems, gaps: dict[str, list[tuple[int, int]]]) -> None:
    from kmirror.cli.dump_log_json import dump_json

    absolute = os.path.abspath(path)
    write: Callable[[bytes], None] = output.write
    conceal = _concealer(path, options)
    found = dump_json(path, absolute, options, _decoder(options), conceal, problems, write)
    if found:
        gaps.setdefault(absolute, []).extend(found)


def _concealer(path: str, options: Options) -> Concealer | None:
    """Returns what hides secrets of the cluster's metadata when its own decoder is not used."""
    from kmirror.cli.dump_log_decoders import concealer

    return None if options.decoder is not None or not options.print_data_log or "show-secrets" in options.flags else concealer(path)


def _decoder(options: Options, conceal: Concealer | None = None) -> Decoder | None:
    """Returns the decoder that the options ask for.

    Returns None for plain text, which is written without decoding each record.
    """
    from kmirror.cli.dump_log_decoders import decoder_for, plain_decoder

    if options.decoder is not None:
        return decoder_for(options.decoder, show_secrets="show-secrets" in options.flags)
    if conceal is None and options.key_decoder_class == options.value_decoder_class == STRING_DECODER:
        return None
    return plain_decoder(options.key_decoder_class, options.value_decoder_class, conceal)


if __name__ == "__main__":
    sys.exit(main())
