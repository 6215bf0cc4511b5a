"""Every property that a server accepts is read by somebody, or is known to have no effect."""

from __future__ import annotations

import ast
from pathlib import Path

from kmirror.server.broker_config_table import BROKER_CONFIG_TABLE
from kmirror.server.broker_configs import configs_without_effect

PACKAGE = Path(__file__).parents[2] / "kmirror"
NOT_THE_SERVER = ("cli", "spark", "sim", "mirrormaker")
DESCRIBES = {
    "broker_config_table.py",
    "configuration_control_manager.py",
    "config_views.py",
    "dynamic_config_validation.py",
    "embedded.py",
    "embedded_security.py",
    "kafka_config_validation.py",
    "resource_configs.py",
    "runtime_logger_manager.py",
}
"""Files that define, check or print properties, and act on none of them."""
JWKS_ENDPOINT = "sasl.oauthbearer.jwks.endpoint"
"""A prefix to which `listener_security` adds the rest of the name."""


def literals(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def readers() -> set[str]:
    """Every literal in the code of a server that may read a property."""
    found: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        is_description = path.name in DESCRIBES or path.name.startswith("broker_config_docs")
        if room not in NOT_THE_SERVER and "messages" not in path.parts and not is_description:
            found |= literals(path)
    return found


def test_a_property_was_accepted_and_read_by_nobody() -> None:
    names = [line.split("|")[0] for line in BROKER_CONFIG_TABLE.strip().splitlines()]
    read = readers()
    if JWKS_ENDPOINT in read:
        read |= {name for name in names if name.startswith(f"{JWKS_ENDPOINT}.")}
    unread = [name for name in names if name not in read and name not in configs_without_effect()]
    assert not unread, f"give them a reader, or the flag N in broker_config_table: {unread}"


def test_a_property_that_has_a_reader_was_said_to_have_no_effect() -> None:
    wrong = sorted(configs_without_effect() & readers())
    assert not wrong, f"take the flag N from them in broker_config_table: {wrong}"
