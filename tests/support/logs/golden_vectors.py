"""Finds the golden vectors: `golden_dir()` returns a folder in the layout that the `README.md`
inside it describes.

The vectors are committed as archives beside the golden tests and unpacked once into the cache
folder that git ignores. `KMIRROR_GOLDEN_DIR` (set by `make golden DIR=...`) puts another folder of
the same layout in their place; then every test looks at whatever cases that folder has.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import pathlib
import shutil
import tarfile
import tempfile
from functools import lru_cache

ROOT = pathlib.Path(__file__).resolve().parents[3]
ZEROS = bytes(1 << 16)
ARCHIVES = ("apache-kafka-4.3.0.tar.xz", "apache-kafka-4.3.0-transactions.tar.xz", "reference-2026-04.tar")
COMMITTED = not os.environ.get("KMIRROR_GOLDEN_DIR")
"""Whether these are the repository's vectors, about which more is known than about others."""


@lru_cache(maxsize=1)
def golden_dir() -> pathlib.Path:
    """The folder with the golden cases, unpacked on first use; read it, never write to it."""
    given = os.environ.get("KMIRROR_GOLDEN_DIR")
    if given:
        folder = pathlib.Path(given)
        if not folder.is_dir():
            raise FileNotFoundError(f"KMIRROR_GOLDEN_DIR={given} is not a folder")
        return folder.resolve()
    archives = [ROOT / "tests" / "golden" / name for name in ARCHIVES]
    digest = hashlib.sha256(b"".join(archive.read_bytes() for archive in archives)).hexdigest()[:16]
    target = ROOT / ".cache" / "golden" / digest
    _unpack(archives, target)
    return target


def _unpack(archives: list[pathlib.Path], target: pathlib.Path) -> None:
    """Unless it is there. Of several processes that want it at once, one unpacks and the others
    wait.
    """
    if (target / ".complete").exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{target}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (target / ".complete").exists():
            return
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            for archive in archives:
                with _SparseTarFile.open(archive) as tar:
                    tar.extractall(scratch, filter="data")
            (pathlib.Path(scratch) / ".complete").touch()
            shutil.rmtree(target, ignore_errors=True)
            os.rename(scratch, target)
            pathlib.Path(scratch).mkdir()


class _SparseTarFile(tarfile.TarFile):
    """Leaves holes where files hold zeros: an index of a running broker is 10 MB of them. An archive that
    was made with `tar --sparse` says itself where they are.
    """

    def makefile(self, tarinfo: tarfile.TarInfo, targetpath: str | os.PathLike[str]) -> None:
        if tarinfo.issparse():
            super().makefile(tarinfo, targetpath)
            return
        source = self.extractfile(tarinfo)
        assert source is not None, f"{tarinfo.name} is no regular file"
        with source, open(targetpath, "wb") as file:
            while piece := source.read(len(ZEROS)):
                if ZEROS.startswith(piece):
                    file.seek(len(piece), os.SEEK_CUR)
                else:
                    file.write(piece)
            file.truncate()


def golden_cases(*prefixes: str) -> list[str]:
    """The sorted names of the cases whose name begins with one of `prefixes` (all of them when none
    is given).
    """
    return sorted(entry.name for entry in golden_dir().iterdir() if entry.is_dir() and (not prefixes or entry.name.startswith(prefixes)))


def read_recording(folder: pathlib.Path, name: str, *, missing: bytes | None = None) -> bytes:
    """A file of a case, unpacked if it is there as .gz; `missing` if it is in neither form (an
    error unless given).
    """
    if (folder / name).exists():
        return (folder / name).read_bytes()
    if (folder / f"{name}.gz").exists():
        return gzip.decompress((folder / f"{name}.gz").read_bytes())
    if missing is None:
        raise FileNotFoundError(folder / name)
    return missing


def recordings(folder: pathlib.Path, suffix: str) -> list[str]:
    """The names in `folder` that end with `suffix`, without the .gz that larger ones have."""
    names = {path.name.removesuffix(".gz") for path in folder.iterdir()} if folder.is_dir() else set()
    return sorted(name for name in names if name.endswith(suffix))


def unpacked_stage(stage: str) -> pathlib.Path:
    """A stage of `20-reference` (for example `c6_restart_resume`), unpacked once into the cache
    folder.
    """
    archive = golden_dir() / "20-reference" / f"{stage}.tar.xz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    target = ROOT / ".cache" / "golden-stages" / f"{stage}-{digest}"
    _unpack([archive], target)
    return target / stage
