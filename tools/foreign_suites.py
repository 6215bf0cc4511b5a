"""Bring the clients' own test suites into the cache folder, and build what must be built.

    python tools/foreign_suites.py [SUITE...]

    kafka-python   the source package of the version that is installed; its `test/integration` takes a broker from the environment.
                   The package leaves out `test/service.py`, so a stand-in of ours is put there: an external broker is only an address
    librdkafka     the C sources that the crate rdkafka-sys carries, with the tests; built without TLS and extra codecs
    franz-go       its package kgo with its tests, as the Go module carries them, built to one program
    sarama         a program of ours (`tests/interop/foreign/go_clients/sarama_round`), built with the module
    kafkajs        a program of ours (`tests/interop/foreign/kafkajs_round`) beside the packages that it needs
    kafka-streams  programs of Kafka's own system tests, from the jars with its tests

Pinned versions come through pip, cargo, go and npm into `.cache/foreign/`, which git ignores, and
through `tools/kafka_jars.py`; a second run finds them complete and does nothing. Nothing of these projects is committed. aiokafka
and confluent-kafka publish no tests in their packages, and those of sarama and kafkajs want a
cluster of their own making; so for these two a program of ours stands in.

Go: the modules want a recent one. A Go from 1.21 on gets it by itself (GOTOOLCHAIN); for an older
one it comes as the module that Go's toolchains are, which any Go can download.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import kafka_jars

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "foreign"
PROGRAMS = ROOT / "tests" / "interop" / "foreign"
GO_TOOLCHAIN = "go1.26.0"
FIRST_GO_THAT_GETS_ITS_TOOLCHAIN = (1, 21)
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


def run(command: list[str], cwd: pathlib.Path, environment: dict[str, str] | None = None) -> str:
    """Returns a tool's output; exits with one line and the tool's last words if it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, env=os.environ | (environment or {}), capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise SystemExit(f"foreign_suites: {command[0]} is not on the PATH; it is needed for the foreign suites") from error
    if done.returncode:
        raise SystemExit(f"foreign_suites: {' '.join(command[:3])} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def fresh(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def kafka_python() -> pathlib.Path:
    """Returns the folder with `test/` of the installed version's source package."""
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
    """Returns the folder with the built `tests/test-runner`."""
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


def fingerprint(folder: pathlib.Path) -> str:
    """Returns a fingerprint of the files below `folder`, which identifies a build of them."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def go() -> str:
    """Returns the command that builds our modules."""
    said = run(["go", "version"], ROOT)
    version = re.search(r"go(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) >= FIRST_GO_THAT_GETS_ITS_TOOLCHAIN:
        return "go"
    folder = CACHE / GO_TOOLCHAIN
    if not (folder / ".complete").exists():
        work = fresh(CACHE / "toolchain")
        platform = run(["go", "env", "GOOS", "GOARCH"], work).split()
        name = f"golang.org/toolchain@v0.0.1-{GO_TOOLCHAIN}.{'-'.join(platform)}"
        downloaded = json.loads(run(["go", "mod", "download", "-json", name], work, {"GOFLAGS": "-mod=mod"}))
        shutil.rmtree(work)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(downloaded["Dir"], folder, copy_function=shutil.copyfile)
        for path in (*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")):
            path.chmod(0o755)  # the files of a module have no executable bits
        (folder / ".complete").touch()
    return str(folder / "bin" / "go")


def go_program(name: str, *build: str) -> pathlib.Path:
    """Returns a program that `go build...` makes in our module of Go clients."""
    source = PROGRAMS / "go_clients"
    program = CACHE / f"go-{fingerprint(source)}" / name
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(".unfinished")
        run([go(), *build[:-1], "-o", str(unfinished), build[-1]], source, {"GOTOOLCHAIN": "auto"})
        unfinished.rename(program)
    return program


def franz_go() -> pathlib.Path:
    """Returns the program with franz-go's own tests of its package kgo."""
    return go_program("kgo.test", "test", "-c", "github.com/twmb/franz-go/pkg/kgo")


def sarama() -> pathlib.Path:
    return go_program("sarama-round", "build", "./sarama_round")


def kafkajs() -> pathlib.Path:
    """Returns the program `round.js` beside its packages."""
    source = PROGRAMS / "kafkajs_round"
    folder = CACHE / f"kafkajs-{fingerprint(source)}"
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        run(["node", "--check", "round.js"], folder)
        (folder / ".complete").touch()
    return folder / "round.js"


def kafka_streams() -> pathlib.Path:
    """Returns the folder with the programs of Kafka Streams' system tests."""
    kafka_jars.resolve(kafka_jars.DEFAULT_VERSION)
    return kafka_jars.resolve_system_tests()


SUITES = {
    "kafka-python": kafka_python,
    "librdkafka": librdkafka,
    "franz-go": franz_go,
    "sarama": sarama,
    "kafkajs": kafkajs,
    "kafka-streams": kafka_streams,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Bring the clients' own test suites into the cache folder.")
    parser.add_argument("suite", nargs="*", help=f"{', '.join(SUITES)}; default: all")
    for name in parser.parse_args().suite or SUITES:
        print(f"{name}: {SUITES[name]().relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
