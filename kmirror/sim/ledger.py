"""The ledger of campaigns: which seeds this very program has run, so that a campaign goes on where
it stopped.

Each line of the file (JSON) says that one chunk of seeds was run to its end: program, commit,
history, what was switched off, first and last seed, and the seeds that broke a rule. Lines are only
appended, each with one write. So a process that is killed loses its chunk at the most, and half a
line at the end of the file is ignored. Two lines about one seed count once.

A program is identified by `Program.key`: a hash over the git trees of the package's rooms, or over
their files if one was changed since the last commit or there is no checkout. Rooms that a run
cannot load are left out (`NOT_RUN`; an import contract enforces it). Commits that differ elsewhere
are one program; a changed tree is never the same as a commit.

Several processes may work on one campaign. A process takes a chunk by locking a byte of the lock
file beside the ledger, and the kernel releases the lock when the process ends, however that
happens.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from kmirror import __version__
from kmirror.common.errors import KmirrorError

CHUNK_SEEDS = 50
PACKAGE = Path(__file__).resolve().parent.parent
NOT_RUN = ("cli", "spark", "verify")
"""Rooms whose code no seed runs: tools, and what compares logs after the fact."""
DEFAULT_FOLDER = "build/sim-ledger"
FILE_NAME = "seeds.jsonl"


@dataclass(frozen=True, slots=True)
class Program:
    """What is run.

    `commit`: as people name it, with "-dirty" when the package was changed since.
    """

    key: str
    commit: str


@dataclass(frozen=True, slots=True)
class Campaign:
    """What a seed belongs to."""

    history: str
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.history + "".join(f" without {name}" for name in self.without)


@dataclass(slots=True)
class Chunk:
    """One line: the seeds from `first` to `last`, both included; `broken` says what each of them
    broke, by seed.
    """

    program: Program
    campaign: Campaign
    first: int
    last: int
    broken: dict[int, str] = field(default_factory=dict)
    cpu_s: float = 0.0

    def to_json(self) -> str:
        return json.dumps(
            {
                "program": self.program.key,
                "commit": self.program.commit,
                "history": self.campaign.history,
                "without": list(self.campaign.without),
                "first": self.first,
                "last": self.last,
                "broken": {str(seed): text for seed, text in self.broken.items()},
                "cpu_s": round(self.cpu_s, 3),
            }
        )

    @classmethod
    def from_json(cls, line: str) -> Chunk:
        """KeyError, TypeError or ValueError for anything that `to_json` does not write."""
        read = json.loads(line)
        return cls(
            Program(read["program"], read["commit"]),
            Campaign(read["history"], tuple(read["without"])),
            int(read["first"]),
            int(read["last"]),
            {int(seed): str(text) for seed, text in read["broken"].items()},
            float(read["cpu_s"]),
        )

    def seeds(self) -> range:
        return range(self.first, self.last + 1)


def this_program(package: Path = PACKAGE) -> Program:
    """The program that is running, as it lies on disk now."""
    commit = _git(package, "rev-parse", "--short=12", "HEAD")
    rooms = _git(package, "ls-tree", "HEAD", "./")
    changes = _git(package, "status", "--porcelain", "--", ".", *(f":(exclude){room}" for room in NOT_RUN))
    if commit is None or not rooms or changes is None:
        return Program(_digest(package), f"version {__version__}")
    if changes:
        return Program(_digest(package), f"{commit}-dirty")
    run = [line for line in rooms.splitlines() if line.partition("\t")[2] not in NOT_RUN]
    return Program(hashlib.blake2b("\n".join(run).encode(), digest_size=20).hexdigest(), commit)


def _git(package: Path, *arguments: str) -> str | None:
    """What git says; None where there is no git, or no checkout."""
    try:
        done = subprocess.run(["git", "-C", str(package), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _digest(package: Path) -> str:
    digest = hashlib.blake2b(digest_size=20)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        if name.parts[0] not in NOT_RUN:
            digest.update(str(name).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def default_path(package: Path = PACKAGE) -> Path:
    """In the checkout's build folder, which git ignores; without a checkout, below the current
    folder.
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    return Path(top or ".") / DEFAULT_FOLDER / FILE_NAME


class Ledger:
    """The file at `path`, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def chunks(self) -> Iterator[Chunk]:
        """Yields every whole line; KmirrorError with the line number for a line that is not a
        ledger's.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise KmirrorError(f"{self.path}: {error.strerror}") from error
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                try:
                    yield Chunk.from_json(line.decode())
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    if not data.endswith(b"\n") and number == data.count(b"\n") + 1 or _is_torn(line):
                        continue
                    raise KmirrorError(f"{self.path}, line {number} is no line of a ledger of seeds: {error}") from error

    def done(self, program: Program, campaign: Campaign) -> dict[int, str]:
        """Returns seed -> what it broke ("": nothing) for all that this program has run."""
        found: dict[int, str] = {}
        for chunk in self.chunks():
            if chunk.program.key == program.key and chunk.campaign == campaign:
                found.update({seed: chunk.broken.get(seed, "") for seed in chunk.seeds()})
        return found

    def add(self, chunk: Chunk) -> None:
        """Appends a line with one write. After half a line of a killed process it begins a new one."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                is_whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
                os.write(descriptor, (b"" if is_whole else b"\n") + chunk.to_json().encode() + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise KmirrorError(f"{self.path}: {error.strerror}") from error

    def claims(self, program: Program, campaign: Campaign) -> ChunkClaims:
        return ChunkClaims(self.path.with_suffix(".lock"), f"{program.key}/{campaign}")


def _is_torn(line: bytes) -> bool:
    """Returns whether it is the beginning of a ledger line whose end is missing."""
    return line.startswith(b'{"program"') and not line.endswith(b"}")


class ChunkClaims:
    """Owns the chunks that this process has taken; use it as a context manager.

    Each chunk is one byte of the lock file, whose contents do not matter.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._base = (zlib.crc32(name.encode()) & 0x3FFFFFFF) << 20
        self._descriptor = -1

    def __enter__(self) -> ChunkClaims:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise KmirrorError(f"{self._path}: {error.strerror}") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def take(self, chunk_number: int) -> bool:
        """Takes the chunk; returns False if another process works on it."""
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._base + chunk_number)
        except BlockingIOError:
            return False
        return True

    def give_back(self, chunk_number: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._base + chunk_number)


def chunks_of(seeds: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yields (number, seeds) of the chunks that these ascending seeds lie in. Chunks are the same
    for every campaign.
    """
    current: list[int] = []
    for seed in seeds:
        if current and seed // CHUNK_SEEDS != current[0] // CHUNK_SEEDS:
            yield current[0] // CHUNK_SEEDS, current
            current = []
        current.append(seed)
    if current:
        yield current[0] // CHUNK_SEEDS, current


@dataclass(slots=True)
class Total:
    """One commit and campaign: distinct seeds, those that broke a rule, seconds of CPU."""

    commit: str
    campaign: Campaign
    seeds: set[int] = field(default_factory=set)
    broken: dict[int, str] = field(default_factory=dict)
    cpu_s: float = 0.0


def totals(ledger: Ledger) -> list[Total]:
    """By program and campaign, in the order in which they came; commits of one program are named
    together.
    """
    found: dict[tuple[str, Campaign], Total] = {}
    for chunk in ledger.chunks():
        total = found.setdefault((chunk.program.key, chunk.campaign), Total(chunk.program.commit, chunk.campaign))
        if chunk.program.commit not in total.commit.split(", "):
            total.commit += f", {chunk.program.commit}"
        total.seeds.update(chunk.seeds())
        total.broken.update(chunk.broken)
        total.cpu_s += chunk.cpu_s
    return list(found.values())


def joined(ledgers: Sequence[Ledger]) -> list[Chunk]:
    """Returns what all ledgers say in as few lines as possible: neighbouring seeds of one program
    and campaign in one line, each seed once.
    """
    lines: list[Chunk] = []
    merged: dict[tuple[str, Campaign], list[Chunk]] = {}
    for ledger in ledgers:
        for chunk in ledger.chunks():
            merged.setdefault((chunk.program.key, chunk.campaign), []).append(chunk)
    for chunks in merged.values():
        last: Chunk | None = None
        for chunk in sorted(chunks, key=lambda chunk: (chunk.first, -chunk.last)):
            if last is None or chunk.first > last.last + 1:
                last = Chunk(chunk.program, chunk.campaign, chunk.first, chunk.first - 1)
                lines.append(last)
            if chunk.last > last.last:
                share = (chunk.last - last.last) / len(chunk.seeds())
                last.last = chunk.last
                last.cpu_s += chunk.cpu_s * share
            last.broken.update(chunk.broken)
    return lines


def total_as_json(total: Total) -> dict[str, Any]:
    return {
        "commit": total.commit,
        "history": total.campaign.history,
        "without": list(total.campaign.without),
        "seeds": len(total.seeds),
        "broken": sorted(total.broken),
        "cpu_s": round(total.cpu_s, 1),
    }
