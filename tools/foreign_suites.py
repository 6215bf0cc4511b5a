"""Bring the clients' own test suites into the cache folder, and build what must be built.

    python tools/foreign_suites.py [SUITE...]

    kafka-python   the source package of the version that is installed; its `test/integration` takes a broker from the environment.
                   The package leaves out `test/service.py`, so a stand-in of ours is put there: an external broker is only an address
    librdkafka     the C sources that the crate rdkafka-sys carries, with the tests; built without TLS and extra codecs
    rskafka        the tests that the crate carries, with its Cargo.lock
    rdkafka        the tests that the crate of rust-rdkafka carries, with its Cargo.lock
    franz-go       its package kgo with its tests, as the Go module carries them, built to one program
    sarama         a program of ours (`tests/interop/foreign/go_clients/sarama_round`), built with the module
    kafkajs        a program of ours (`tests/interop/foreign/kafkajs_round`) beside the packages that it needs
    kafka-streams  programs of Kafka's own system tests, from the jars with its tests

Pinned versions come through pip, cargo, go and npm into `.cache/foreign/`, which git ignores, and
through `tools/kafka_jars.py`; a second run finds them complete and does nothing. Nothing of these projects is committed. aiokafka
and confluent-kafka publish no tests in their packages, and those of sarama and kafkajs want a
cluster of their own making; so for these four a program of ours stands in. The two in Python
(`tests/interop/foreign/python_rounds`) need nothing from here.

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
RUST_SUITES = {"rskafka": "0.6.0", "rdkafka": "0.39.0"}
RUST_PINS = {"rskafka": (("rsasl", "2.3.1"), ("thiserror@2", "2.0.12"))}
"""What stands in a crate's own Cargo.lock and does not compile with a recent Rust."""
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


def vendored(name: str, version: str) -> pathlib.Path:
    """Returns a folder with the sources of a crate and of all that it depends on."""
    crate = fresh(CACHE / "crate")
    (crate / "src").mkdir()
    (crate / "src" / "lib.rs").touch()
    (crate / "Cargo.toml").write_text(
        f'[package]\nname = "suite"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n'
    )
    run(["cargo", "vendor", "-q"], crate)
    return crate / "vendor"


def librdkafka() -> pathlib.Path:
    """Returns the folder with the built `tests/test-runner`."""
    folder = CACHE / f"librdkafka-{CRATE_VERSION.partition('+')[2]}"
    if (folder / ".complete").exists():
        return folder
    vendor = vendored(CRATE, CRATE_VERSION)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(vendor / CRATE / "librdkafka", folder)
    shutil.rmtree(vendor.parent)
    off = ("gssapi", "zstd", "curl", "ssl", "lz4-ext")
    run(["./configure", "--CFLAGS=-O1", "--CXXFLAGS=-O1", *(f"--disable-{name}" for name in off)], folder)
    for part in ("src", "src-cpp"):
        run(["make", "-j2", "-C", part], folder)
    run(["make", "-j2", "-C", "tests", "build"], folder)
    (folder / ".complete").touch()
    return folder


def rust_suite(name: str) -> pathlib.Path:
    """Returns the folder with the test programs of a crate in `programs/`, and its sources.

    librdkafka, which both crates bind, is the library built above, not another build of theirs.
    """
    folder = CACHE / f"{name}-{RUST_SUITES[name]}"
    if (folder / ".complete").exists():
        return folder
    library = librdkafka() / "src"
    vendor = vendored(name, RUST_SUITES[name])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(vendor / name, folder)
    shutil.rmtree(vendor.parent)
    (folder / "rust-toolchain.toml").unlink(missing_ok=True)
    for crate, version in RUST_PINS.get(name, ()):
        run(["cargo", "update", "-q", crate, "--precise", version], folder)
    _build_rust_tests(folder, library)
    (folder / ".complete").touch()
    return folder


def _build_rust_tests(folder: pathlib.Path, library: pathlib.Path) -> None:
    """Builds `tests/*.rs` and keeps only the programs."""
    (host,) = re.findall(r"^host: (.*)$", run(["rustc", "-vV"], folder), re.MULTILINE)
    linked = {"rustc-link-search": str(library), "rustc-link-lib": "rdkafka"}
    configs = [f"--config=target.{host}.rdkafka.{key}=['{value}']" for key, value in linked.items()]
    quick = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_DEV_INCREMENTAL": "false"}
    command = ["cargo", "test", "--locked", "--test", "*", "--no-run", "--message-format=json"]
    messages = run([*command, *configs], folder, quick).splitlines()
    programs = fresh(folder / "programs")
    for message in map(json.loads, messages):
        if message.get("executable"):
            shutil.move(message["executable"], programs / message["target"]["name"])
    shutil.rmtree(folder / "target")


def rskafka() -> pathlib.Path:
    return rust_suite("rskafka")


def rdkafka() -> pathlib.Path:
    return rust_suite("rdkafka")


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
    "rskafka": rskafka,
    "rdkafka": rdkafka,
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
