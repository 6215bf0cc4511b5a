"""`kmirror verify-logs bootstrap:HOST:PORT`: the set of a running cluster's logs.

Which replicas have to be there, which the brokers have, and which are nobody's (`live_inventory`).
What is in the logs is not looked at: their bytes are on the brokers' disks.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.cli.live_inventory import LiveSet, look
from kmirror.cli.verify_logs_text import finding_text, json_report
from kmirror.common.errors import KmirrorError
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.verify.replay.tables import ReplayTables

LIVE_PREFIX: Final = "bootstrap:"
LOGS_UNSEEN: Final = "what is in the logs (give their directories)"
REFUSED: Final = ("engine", "master", "topics", "partitions", "compacted", "no_crc", "deep", "no_keys", "output", "full", "report")


def verify_live(options: argparse.Namespace, defaults: argparse.Namespace) -> int:
    """Prints what was found about the set, and returns the exit code."""
    given = [name for name in REFUSED if getattr(options, name) != getattr(defaults, name)]
    if given:
        raise KmirrorError(f"--{given[0].replace('_', '-')} is for directories; of {options.logs} only the set of logs is looked at")
    found = asyncio.run(_look(options.logs))
    unseen = [LOGS_UNSEEN, *found.unseen]
    if options.json:
        print(json_report(options.logs, ReplayTables(findings=found.findings), unseen))
    else:
        print(live_text(found, unseen))
    return 1 if found.findings else 0


async def _look(location: str) -> LiveSet:
    servers = parse_bootstrap_servers(location.removeprefix(LIVE_PREFIX))
    runtime = AsyncioRuntime(loop=asyncio.get_running_loop(), worker_count=1)
    admin = AdminClient(runtime, servers, client_id="kmirror-verify-logs")
    try:
        return await look(admin)
    finally:
        admin.close()
        runtime.close()


def live_text(found: LiveSet, unseen: Sequence[str]) -> str:
    """`3 partitions, 9 replicas, 3 brokers asked: 1 finding (inventory missing: 1); not looked at: ...`"""
    kinds = Counter(f"{finding.table} {finding.kind}" for finding in found.findings)
    named = ", ".join(f"{kind}: {count}" for kind, count in sorted(kinds.items()))
    verdict = f"{len(found.findings)} found ({named})" if found.findings else "no replica is missing there, and none is nobody's"
    counts = f"{found.partitions} partitions, {found.replicas} replicas, {found.brokers} brokers asked"
    return "\n".join([*map(finding_text, found.findings), f"{counts}: {verdict}; not looked at: {', '.join(unseen)}"])
