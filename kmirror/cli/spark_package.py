"""`kmirror spark-package`: kmirror as an archive, for a Spark cluster whose workers do not have it.

    kmirror spark-package                                   kmirror-spark.tar.gz: modules and libraries, for --archives
    kmirror spark-package --without numpy,pyarrow           the same for workers that have these two
    kmirror spark-package --output kmirror-spark.zip        modules alone, for --py-files

Beside the archive it writes a program for `spark-submit`, which runs `kafka-log-diff` or
`verify-logs`. It prints the lines to use; docs/SPARK.md says more.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from pathlib import Path
from typing import Final

from kmirror import __version__
from kmirror.cli.user_errors import exit_code
from kmirror.common.errors import KmirrorError
from kmirror.spark.package import TAR_SUFFIXES, TOOLS, Package, write_package

DEFAULT_OUTPUT: Final = Path("kmirror-spark.tar.gz")
FOLDER: Final = "kmirror_env"
"""The folder in which Spark unpacks the archive."""
PROGRAM: Final = '''\
"""spark-submit runs files, not commands: `{name} kafka-log-diff A B ...` is that command."""

import importlib
import sys

TOOLS = {tools!r}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TOOLS:
        sys.exit("usage: {name} " + "|".join(TOOLS) + " ARGUMENTS")
    module, first = TOOLS[sys.argv[1]]
    code = importlib.import_module(module).main([*first, *sys.argv[2:]])
    if code:
        sys.exit(code)
'''


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    add("--output", metavar="FILE", type=Path, default=DEFAULT_OUTPUT, help="where to write it: a .tar.gz has modules and libraries, for --archives; "
        "a .zip has modules alone, for --py-files (default: %(default)s)")  # fmt: skip
    add(
        "--without",
        metavar="NAMES",
        default="",
        help="libraries to leave out of a .tar.gz, separated by commas: those that the workers have",
    )


def run(command: str, options: argparse.Namespace) -> int:
    return exit_code(lambda: _run(options), failed=f"kmirror {command}: ", failure_code=2)


def _run(options: argparse.Namespace) -> int:
    without = [name for name in options.without.split(",") if name]
    made = write_package(options.output, without=without)
    program = write_program(made.path)
    print(summary(made, program, without))
    return 0


def write_program(archive: Path) -> Path:
    """Write the program beside an archive; returns its path."""
    stem = next(archive.name.removesuffix(suffix) for suffix in (*TAR_SUFFIXES, ".zip") if archive.name.endswith(suffix))
    path = archive.with_name(f"{stem}.py")
    if path.exists() and "spark-submit runs files" not in path.read_text(encoding="utf-8", errors="replace"):
        raise KmirrorError(f"the archive {archive} was written, but {path} exists and was not written by kmirror; it is kept")
    path.write_text(PROGRAM.format(name=path.name, tools=TOOLS), encoding="utf-8")
    return path


def summary(made: Package, program: Path, without: list[str]) -> str:
    has_libraries = bool(made.libraries) or made.path.name.endswith(TAR_SUFFIXES)
    size = f"{made.size / 1e6:.1f} MB" if made.size >= 1e6 else f"{made.size / 1e3:.0f} KB"
    lines = [f"{made.path}: {size}, kmirror {__version__} in {made.modules} modules"]
    if made.libraries:
        python = f"CPython {sys.version_info.major}.{sys.version_info.minor} on {sysconfig.get_platform()}"
        lines.append(f"with {', '.join(made.libraries)}, for {python}")
    if without or not has_libraries:
        lines.append(f"the workers' Python must have {', '.join(without) if has_libraries else 'what kmirror[spark] installs'}")
    lines += [f"{program}: runs {' or '.join(TOOLS)} under spark-submit", "", submit_line(made.path, program)]
    return "\n".join(lines)


def submit_line(archive: Path, program: Path) -> str:
    """Returns an example for a standalone master."""
    if archive.name.endswith(TAR_SUFFIXES):
        shipped = f"--archives {archive}#{FOLDER} --conf spark.executorEnv.PYTHONPATH={FOLDER}"
    else:
        shipped = f"--py-files {archive}"
    return f"spark-submit --master spark://HOST:7077 {shipped} {program} kafka-log-diff A B --engine spark"
