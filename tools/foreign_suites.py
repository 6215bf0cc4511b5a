"""Bring the clients' own test suites into the cache folder, and build what must be built.

    python tools/foreign_suites.py [kafka-python] [librdkafka]

    kafka-python   the source package of the version that is installed; its `test/integration` takes a broker from the environment.
                   The package leaves out `test/service.py`, so a stand-in of ours is put there: an external broker is only an address
    librdkafka     the C sources that the crate rdkafka-sys carries, with the tests; built without TLS and extra codecs

Pinned versions come through pip and cargo into `.cache/foreign/`, which git ignores; a second run finds them complete and does
nothing. Nothing of these projects is committed. aiokafka and confluent-kafka publish no tests in their packages.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import pathlib
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "foreign"
CRATE, CRATE_VERSION = "rdkafka-sys", "4.10.0+2.12.1"
STAND_IN = '''"""Stand-in: an external broker is only an address."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def stop(self):
        pass

    close = stop


class SpawnedService:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("this run has an external broker")
'''


def run(command: list[str], cwd: pathlib.Path) -> None:
    """One line and the tool's last words when it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SystemExit(f"foreign_suites: {command[0]} is not on the PATH; it is needed for the foreign suites") from error
    if done.returncode:
        raise SystemExit(f"foreign_suites: {' '.join(command[:3])} failed:\n{(done.stdout + done.stderr)[-2000:]}")


def fresh(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def kafka_python() -> pathlib.Path:
    """The folder that holds `test/` of the installed version's source package."""
    version = importlib.metadata.version("kafka-python")
    folder = CACHE / f"kafka-python-{version}"
    if (folder / ".complete").exists():
        return folder
    fresh(folder)
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "kafka-python", "-d", str(folder)]
    run([*download, f"kafka-python=={version}"], folder)
    (package,) = folder.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (entry.parent for entry in folder.glob("*/test"))
    shutil.move(unpacked / "test", folder / "test")
    shutil.rmtree(unpacked)
    package.unlink()
    for name in ("test/__init__.py", "test/integration/__init__.py"):
        (folder / name).touch()
    if not (folder / "test" / "service.py").exists():
        (folder / "test" / "service.py").write_text(STAND_IN)
    (folder / ".complete").touch()
    return folder


def librdkafka() -> pathlib.Path:
    """The folder that holds the built `tests/test-runner`."""
    folder = CACHE / f"librdkafka-{CRATE_VERSION.partition('+')[2]}"
    if (folder / ".complete").exists():
        return folder
    crate = fresh(CACHE / "crate")
    (crate / "src").mkdir()
    (crate / "src" / "lib.rs").touch()
    (crate / "Cargo.toml").write_text(
        f'[package]\nname = "suite"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{CRATE} = "={CRATE_VERSION}"\n'
    )
    run(["cargo", "vendor", "-q"], crate)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(crate / "vendor" / CRATE / "librdkafka", folder)
    shutil.rmtree(crate)
    off = ("gssapi", "zstd", "curl", "ssl", "lz4-ext")
    run(["./configure", "--CFLAGS=-O1", "--CXXFLAGS=-O1", *(f"--disable-{name}" for name in off)], folder)
    for part in ("src", "src-cpp"):
        run(["make", "-j2", "-C", part], folder)
    run(["make", "-j2", "-C", "tests", "build"], folder)
    (folder / ".complete").touch()
    return folder


SUITES = {"kafka-python": kafka_python, "librdkafka": librdkafka}


def main() -> int:
    parser = argparse.ArgumentParser(description="Bring the clients' own test suites into the cache folder.")
    parser.add_argument("suite", nargs="*", help="kafka-python, librdkafka; default: all")
    for name in parser.parse_args().suite or SUITES:
        print(f"{name}: {SUITES[name]().relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
