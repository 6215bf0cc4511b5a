"""The wheel, installed where there is no checkout: what a new user has after `pip install kmirror`,
and after `pip install 'kmirror[clients]'`.

The other extras bring more, and are tested in tests/interop/tools/test_installed_extras.py.
"""

from __future__ import annotations

import email.message
import email.parser
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.tools.installed_wheel import ROOT, InstalledWheel, built
from support.tools.readme_examples import examples, run_examples
from support.waiting import PROGRAM_S

TYPED = """\
from kmirror import AdminClient, EmbeddedCluster, KmirrorError, Security

reveal_type(EmbeddedCluster().bootstrap_servers)
reveal_type(AdminClient.close)
reveal_type(KmirrorError("x").args)
EmbeddedCluster(brokers="3", security=Security.ssl())
"""
NOT_REWRITTEN = """\
import sys
import pytest


def test_the_broker_comes_from_bytecode(kmirror_cluster, kmirror_topic, kmirror_admin):
    topic = kmirror_topic("orders", partitions=3)
    assert topic in kmirror_admin.run(lambda admin: admin.list_topics())
    ours = [module for name, module in sys.modules.items() if name.split(".")[0] == "kmirror"]
    assert len(ours) > 300 and "site-packages" in sys.modules["kmirror"].__file__
    assert {type(module.__spec__.loader).__name__ for module in ours} == {"SourceFileLoader"}


def test_a_users_own_assertions_still_tell(kmirror_name):
    with pytest.raises(AssertionError, match="assert 'name-"):
        assert kmirror_name() == "x"
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def core(distributions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    """Without any extra; only pytest beside it, for the plugin."""
    return InstalledWheel(tmp_path_factory.mktemp("core"), distributions["wheel"], others=["pytest"])


@pytest.fixture(scope="module")
def metadata(distributions: dict[str, Path]) -> email.message.Message:
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(wheel.read(name).decode())


# --- what a registry shows


def test_a_registry_shows_what_the_package_is(metadata: email.message.Message) -> None:
    assert {"Framework :: Pytest", "Typing :: Typed"} <= set(metadata.get_all("Classifier", []))
    assert {"kafka", "testing"} <= set(metadata["Keywords"].split(",")) and metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Project-URL") == [
        "KIP-1279: Cluster Mirroring, https://cwiki.apache.org/confluence/display/KAFKA/KIP-1279%3A+Cluster+Mirroring"
    ]


def test_a_registry_shows_no_broken_link_and_no_broken_picture(metadata: email.message.Message) -> None:
    page = metadata.get_payload()
    assert isinstance(page, str) and page.startswith("# kmirror") and metadata["Description-Content-Type"] == "text/markdown"
    targets = re.findall(r"\]\(([^)]*)\)", page)
    assert [target for target in targets if not target.startswith("https:")] == []
    assert "`docs/MIRRORING.md`" in page and "source distribution" in page and "![" not in page


def test_the_first_screen_says_how_to_install_and_what_each_extra_is_for() -> None:
    first = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert "pip install 'kmirror[clients]'" in first
    told = set(re.findall(r"^\| `(\w+)` \| \S", first, re.MULTILINE))
    assert told == set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def test_the_source_distribution_has_the_program_and_its_documents_alone(distributions: dict[str, Path]) -> None:
    with tarfile.open(distributions["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "NOTICE", "pyproject.toml", "hatch_build.py", "docs/MIRRORING.md", "kmirror/py.typed"} <= names
    assert {name.split("/")[0] for name in names} & {"tests", "benches", "tools", "protocol", ".ci"} == set()


# --- nothing but the wheel


def test_a_run_of_pytest_rewrites_no_module_of_the_broker(core: InstalledWheel, tmp_path: Path) -> None:
    """pytest rewrote some 650 modules in each run, two seconds where no bytecode is written."""
    (tmp_path / "test_orders.py").write_text(NOT_REWRITTEN)
    done = core.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path, PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_every_program_of_the_wheel_starts(core: InstalledWheel, tmp_path: Path) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    program = (
        "import importlib, sys\n"
        f"for entry in {sorted(scripts.values())!r}:\n"
        "    module, _, function = entry.partition(':')\n"
        "    assert callable(getattr(importlib.import_module(module), function)), entry\n"
        "from kmirror import AdminClient, EmbeddedCluster, KmirrorError, Security\n"
        "with EmbeddedCluster(brokers=2) as cluster: print(cluster)\n"
    )
    assert core.run_python(program, cwd=tmp_path).startswith("<EmbeddedCluster of 2 brokers on 127.0.0.1:")
    assert core.run("kmirror", "--version", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "command, extra",
    [
        (["kmirror", "demo", "--output", "out"], "clients"),
        (["kmirror", "verify-logs", "s3://bucket/a"], "spark"),
        (["kafka-console-producer", "--bootstrap-server", "127.0.0.1:9", "--topic", "t"], "clients"),
        (["kafka-log-diff", "s3://bucket/a", "b"], "spark"),
    ],
)
def test_what_needs_an_extra_names_it_in_one_line(core: InstalledWheel, tmp_path: Path, command: list[str], extra: str) -> None:
    done = core.run(*command, cwd=tmp_path)
    assert done.returncode != 0 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.stdout + done.stderr
    assert f"kmirror[{extra}]" in done.stderr


def test_mypy_sees_the_wheels_types(core: InstalledWheel, tmp_path: Path) -> None:
    """Without py.typed a user's mypy saw Any."""
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(core.python), "typed.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PROGRAM_S, env=core.environment, check=False)
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert len(errors) == 1 and 'incompatible type "str"; expected "int"' in errors[0], done.stdout + done.stderr
    assert 'Revealed type is "str"' in done.stdout and "Any" not in re.findall(r"Revealed type is (.*)", done.stdout)


# --- kmirror[clients]


def test_the_first_examples_run_where_the_first_screen_was_followed(core: InstalledWheel, tmp_path: Path) -> None:
    core.install(extras=["clients"])
    sections = ("A cluster inside a test", "A cluster for every test: the pytest plugin", "Clusters as processes")
    chosen = [example for example in examples() if example.section in sections]
    assert {example.section for example in chosen} == set(sections)
    run_examples(chosen, tmp_path, environment=core.environment)
