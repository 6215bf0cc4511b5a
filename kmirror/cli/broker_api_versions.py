"""`kafka-broker-api-versions`: the APIs and versions that each broker serves; output of Kafka's
tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from kmirror.cli.tool_options import ToolParser, print_json, require, run_tool

LAST_API_OF_KAFKA = 92
"""The APIs above are KIP-1279's; they are shown only if a broker serves them."""

DESCRIPTION = "This tool helps to retrieve broker version information."


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-broker-api-versions", DESCRIPTION)
    parser.connection()
    parser.json_flag()
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server")


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.tool_client import with_admin

    async def ask(admin: AdminClient) -> None:
        shown = []
        for node in (await admin.describe_cluster()).nodes:
            ranges = {row.api_key: (row.min_version, row.max_version) for row in (await admin.broker_api_versions(node)).api_keys}
            if options.json:
                shown.append({"id": node.id, "host": node.host, "port": node.port, "rack": node.rack, "apis": _as_json(ranges)})
            else:
                rack = "null" if node.rack is None else node.rack
                print(f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (\n{_lines(ranges)}\n)")
        if options.json:
            print_json(shown)

    with_admin(options.bootstrap_server, options.command_config, ask)
    return 0


def _known() -> dict[int, tuple[str, int, int]]:
    """Returns the name, lowest and highest version of each API that is served to clients."""
    from kmirror.wire.api_keys import API_TABLE

    specs = [spec for spec in API_TABLE.values() if "broker" in spec.listeners]
    return {int(spec.key): (spec.name, spec.lowest, spec.highest) for spec in specs}


def usable(offered: tuple[int, int], known: tuple[int, int]) -> int | None:
    """Returns the highest version that both know."""
    highest = min(offered[1], known[1])
    return highest if highest >= max(offered[0], known[0]) else None


def _lines(ranges: dict[int, tuple[int, int]]) -> str:
    known = _known()
    lines = []
    for key in sorted({key for key in known if key <= LAST_API_OF_KAFKA} | ranges.keys()):
        name = known[key][0] if key in known else "UNKNOWN"
        if key not in ranges:
            lines.append(f"\t{name}({key}): UNSUPPORTED")
            continue
        low, high = ranges[key]
        served = str(low) if low == high else f"{low} to {high}"
        best = usable((low, high), known[key][1:]) if key in known else None
        lines.append(f"\t{name}({key}): {served} [{'unusable: node too new' if best is None else f'usable: {best}'}]")
    return ",\n".join(lines)


def _as_json(ranges: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    known = _known()
    return [
        {
            "key": key,
            "name": known[key][0] if key in known else None,
            "minVersion": low,
            "maxVersion": high,
            "usable": usable((low, high), known[key][1:]) if key in known else None,
        }
        for key, (low, high) in sorted(ranges.items())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
