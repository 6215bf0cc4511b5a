"""Kafka's small text checkpoints: a version line, a count line, then one entry a line.

    0\\n
    <number of entries>\\n
    <entry>\\n ...

A checkpoint is replaced as a whole: `<file>.tmp` is written and synced, renamed over the old file,
and the folder is synced. So a crash leaves the old text or the new one, never a mixture. A file of
0 bytes, or one that ends after its version line, holds no entries (Kafka creates its checkpoints
empty). A wrong count of lines, or a line that does not parse, is corruption:
`CorruptCheckpointError` with the file and the byte position of the line. It is an OSError, as it is
an IOException in Kafka, so the reader takes the directory offline. Nothing in the file is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from kmirror.common.errors import CorruptCheckpointError
from kmirror.common.ports import FileSystem

Entry = TypeVar("Entry")

TEMPORARY_SUFFIX: Final = ".tmp"


def parent_dir(path: str) -> str:
    """The folder that holds `path` ('.' for a bare name)."""
    parent = path.rstrip("/").rpartition("/")
    return parent[0] or ("/" if parent[1] else ".")


def write_atomically(files: FileSystem, path: str, data: bytes) -> None:
    """Replaces the file at `path` by `data`, so that a crash leaves the old bytes or the new
    ones.
    """
    temporary = path + TEMPORARY_SUFFIX
    files.write_bytes(temporary, data)
    files.fsync_path(temporary)
    files.rename(temporary, path)
    files.fsync_path(parent_dir(path))


class CheckpointFile(Generic[Entry]):
    """A versioned list of entries in a text file (Kafka's `CheckpointFile`).

    `format_entry` returns an entry's line without its line end. `parse_entry` raises ValueError for
    a line that is not an entry.
    """

    VERSION: Final = 0

    def __init__(
        self,
        files: FileSystem,
        path: str,
        *,
        format_entry: Callable[[Entry], str],
        parse_entry: Callable[[str], Entry],
    ) -> None:
        self.path = path
        self._files = files
        self._format_entry = format_entry
        self._parse_entry = parse_entry

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def create_if_absent(self) -> None:
        """Creates an empty file if there is none, as Kafka does when it opens a log or log
        directory.
        """
        if not self.exists():
            self._files.write_bytes(self.path, b"")

    def write(self, entries: Iterable[Entry]) -> None:
        lines = [self._format_entry(entry) for entry in entries]
        write_atomically(self._files, self.path, encode_lines(self.VERSION, lines))

    def read(self) -> list[Entry]:
        """The entries; none for a missing or empty file.

        CorruptCheckpointError says where a corrupt file is damaged.
        """
        try:
            data = self._files.read_bytes(self.path)
        except FileNotFoundError:
            return []
        return self._parse(data)

    def _parse(self, data: bytes) -> list[Entry]:
        lines = self._split(data)
        if not lines:
            return []
        version = self._parse_int(*lines[0])
        if version != self.VERSION:
            raise CorruptCheckpointError(self.path, 0, f"unrecognised version {version}, expected version {self.VERSION}")
        if len(lines) == 1:
            return []
        expected = self._parse_int(*lines[1])
        entries = [self._parse_line(position, line) for position, line in lines[2:]]
        if len(entries) != expected:
            raise CorruptCheckpointError(self.path, len(data), f"expected {expected} entries but found {len(entries)}")
        return entries

    def _split(self, data: bytes) -> list[tuple[int, str]]:
        """(byte position, text) of each line; the last line may lack its line end."""
        lines: list[tuple[int, str]] = []
        position = 0
        for raw in data.split(b"\n"):
            try:
                lines.append((position, raw.rstrip(b"\r").decode()))
            except UnicodeDecodeError as error:
                raise CorruptCheckpointError(self.path, position + error.start, "not UTF-8") from error
            position += len(raw) + 1
        if lines[-1][1] == "":
            lines.pop()
        return lines

    def _parse_int(self, position: int, line: str) -> int:
        try:
            return parse_decimal(line)
        except ValueError as error:
            raise CorruptCheckpointError(self.path, position, f"malformed line {line!r}") from error

    def _parse_line(self, position: int, line: str) -> Entry:
        try:
            return self._parse_entry(line)
        except ValueError as error:
            raise CorruptCheckpointError(self.path, position, f"malformed line {line!r}") from error


def parse_decimal(text: str) -> int:
    """A decimal integer as Java parses it: ASCII digits and at most one sign; ValueError
    otherwise.
    """
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{text!r} is not a decimal number")
    return int(text)


def encode_lines(version: int, lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (str(version), str(len(lines)), *lines)).encode()
