"""Brings the oldest PySpark that kmirror supports into the cache folder, for the test that it works.

    python tools/spark_floor.py [--print]

The version is the one that pyproject.toml names (`pyspark>=4.1` is 4.1.0). pip installs it with its
py4j, and nothing else, into `.cache/pyspark/<version>/`, which git ignores. A second run finds the
folder complete and does nothing. With that folder first in PYTHONPATH, an interpreter that has
kmirror runs on this PySpark.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPLETE = ".complete"


def floor_version() -> str:
    """Returns the oldest version that the extra `spark` accepts."""
    extra: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["spark"]
    least = next(match[1] for one in extra if (match := re.fullmatch(r"pyspark>=([0-9.]+)", one)))
    return least + ".0" * (2 - least.count("."))


def floor_dir() -> pathlib.Path:
    """The folder that holds that PySpark once `main` has run."""
    return ROOT / ".cache" / "pyspark" / floor_version()


def install(folder: pathlib.Path) -> None:
    if (folder / COMPLETE).exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*pip, f"pyspark=={floor_version()}"], check=True)
    (folder / COMPLETE).touch()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Bring the oldest PySpark that kmirror supports into the cache folder.")
    parser.add_argument("--print", action="store_true", help="print the folder")
    given = parser.parse_args(arguments)
    install(floor_dir())
    if given.print:
        print(floor_dir())
    return 0


if __name__ == "__main__":
    sys.exit(main())
