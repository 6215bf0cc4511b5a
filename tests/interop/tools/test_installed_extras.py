"""What README's table says that each extra is for, done where the wheel is installed with that
extra alone.

`clients` and no extra are in tests/integration/test_installed_wheel.py; this file has what takes
long to install, and the other type checker.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.peers.peers import require
from support.tools.installed_wheel import ROOT, InstalledWheel, built
from support.tools.readme_examples import examples, run_examples
from support.waiting import PROGRAM_S

pytestmark = pytest.mark.interop

SECURED = """\
from kmirror import AdminClient, EmbeddedCluster, Security
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.asyncio_runtime import run

with EmbeddedCluster(security=Security.sasl_ssl({"alice": "secret"})) as cluster:
    properties = cluster.client_properties("alice", style="java")
    host, _, port = cluster.bootstrap_servers.partition(":")

    async def main(runtime):
        async with AdminClient(runtime, [(host, int(port))], security=ClientSecurity.from_props(properties)) as admin:
            return await admin.describe_cluster()

    print(run(main).cluster_id == cluster.cluster_id)
"""
REST = """\
import json, subprocess, sys, time, urllib.request
from pathlib import Path
from kmirror import EmbeddedCluster
from kmirror.cli.demo_cluster import free_ports

(port,) = free_ports(1)
with EmbeddedCluster() as cluster:
    converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
    worker = {
        "bootstrap.servers": cluster.bootstrap_servers, "listeners": f"http://127.0.0.1:{port}", "offset.storage.file.filename": "offsets",
        "key.converter": converter, "value.converter": converter,
    }
    Path("worker.properties").write_text("".join(f"{name}={value}\\n" for name, value in worker.items()))
    process = subprocess.Popen([Path(sys.executable).parent / "connect-standalone", "worker.properties"], stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            try:
                print(json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/"))["kafka_cluster_id"] == cluster.cluster_id)
                break
            except OSError:
                time.sleep(0.1)
    finally:
        process.terminate()
        process.wait()
"""
KERBEROS = """\
from kmirror.network.security import gssapi_sasl

print(gssapi_sasl.__name__)
import gssapi
print(gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service))
"""
WRITE_SOUTH = """\
from pathlib import Path
from confluent_kafka import Producer
from kmirror import EmbeddedCluster

with EmbeddedCluster(folder="south") as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(1000):
        producer.produce("orders", value=f"order {number}")
    assert producer.flush(60) == 0
    Path("south-data").symlink_to(cluster.log_dir())
"""
PYRIGHT = """\
from kmirror import EmbeddedCluster

reveal_type(EmbeddedCluster().bootstrap_servers)
EmbeddedCluster(brokers="3")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("dist"))["wheel"]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    """Without an extra; each test adds its own."""
    return InstalledWheel(tmp_path_factory.mktemp("extras"), wheel)


def test_every_extra_is_tried() -> None:
    tried = {"clients", "security", "rest", "gssapi", "spark", "dev"}  # dev: by all other tests
    assert set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) == tried


def test_security_gives_a_cluster_tls(installed: InstalledWheel, tmp_path: Path) -> None:
    installed.install(extras=["security"])
    assert installed.run_python(SECURED, cwd=tmp_path) == "True\n"


def test_rest_gives_connect_its_interface(installed: InstalledWheel, tmp_path: Path) -> None:
    installed.install(extras=["rest"])
    assert installed.run_python(REST, cwd=tmp_path) == "True\n"


def test_gssapi_gives_kerberos(installed: InstalledWheel, tmp_path: Path) -> None:
    require(shutil.which("krb5-config"), "Kerberos' headers, which gssapi is built from, are not installed (krb5-config)")
    installed.install(extras=["gssapi"])
    assert installed.run_python(KERBEROS, cwd=tmp_path).splitlines()[1].startswith("kafka@")


def test_spark_gives_the_data_source_and_the_archive(installed: InstalledWheel, tmp_path: Path) -> None:
    """`kmirror spark-package` failed in every wheel, because a file is elsewhere there than in an
    editable install.
    """
    installed.install(extras=["spark", "clients"])
    installed.run_python(WRITE_SOUTH, cwd=tmp_path)
    (example,) = (one for one in examples() if one.section == "Spark")
    run_examples([example], tmp_path, environment=installed.environment)
    for name in ("kmirror-spark.tar.gz", "kmirror-spark.zip"):
        done = installed.run("kmirror", "spark-package", "--output", name, cwd=tmp_path)
        assert done.returncode == 0 and (tmp_path / name).stat().st_size > 100_000, done.stdout + done.stderr
    done = installed.run("kafka-log-diff", "south-data", "south-data", "--output", "verified", cwd=tmp_path)
    assert done.returncode == 0 and list((tmp_path / "verified").rglob("*.parquet")), done.stdout + done.stderr


def test_pyright_sees_the_wheels_types(installed: InstalledWheel, tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(PYRIGHT)
    (tmp_path / "package.json").write_text('{"private": true}')
    subprocess.run(["npm", "install", "--silent", "pyright"], cwd=tmp_path, check=True, timeout=PROGRAM_S)
    command = ["npx", "pyright", "--pythonpath", str(installed.python), "--outputjson", "typed.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    told = {(one["severity"], one["message"].splitlines()[0]) for one in json.loads(done.stdout)["generalDiagnostics"]}
    assert ("information", 'Type of "EmbeddedCluster().bootstrap_servers" is "str"') in told
    (error,) = (message for severity, message in told if severity == "error")
    assert '"brokers" of type "int"' in error
