"""Brings what tests of Spark need beside the installed PySpark into the cache folder.

    python tools/spark_packages.py

    .cache/pyspark/<version>/   the oldest PySpark that kmirror supports, with its py4j. The version is
                                the one that pyproject.toml names (`pyspark>=4.1` is 4.1.0).
    .cache/pyspark/connect/     what a client of Spark Connect needs (pip's `pyspark[connect]`), pandas
                                included. The tests' own environment has none of it, so kmirror cannot
                                come to need it unseen.

git ignores the folder. A second run finds both complete and does nothing. With one of them first in
PYTHONPATH, an interpreter that has kmirror has what is in there, too.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPLETE = ".complete"
CONNECT = ("grpcio>=1.76", "grpcio-status>=1.76", "googleapis-common-protos>=1.71", "zstandard>=0.25", "pandas>=2.2,<3")
"""PySpark 4.3 warns of pandas 3."""


def floor_version() -> str:
    """Returns the oldest version that the extra `spark` accepts."""
    extra: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["spark"]
    least = next(match[1] for one in extra if (match := re.fullmatch(r"pyspark>=([0-9.]+)", one)))
    return least + ".0" * (2 - least.count("."))


def floor_dir() -> pathlib.Path:
    """The folder of the oldest PySpark."""
    return ROOT / ".cache" / "pyspark" / floor_version()


def connect_dir() -> pathlib.Path:
    """The folder of what Spark Connect's client needs."""
    return ROOT / ".cache" / "pyspark" / "connect"


def install(folder: pathlib.Path, *requirements: str) -> None:
    """Installs packages, and what they require, unless `folder` is complete."""
    if (folder / COMPLETE).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*pip, *requirements], check=True)
    (folder / COMPLETE).touch()


def main() -> int:
    install(floor_dir(), f"pyspark=={floor_version()}")
    install(connect_dir(), *CONNECT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
