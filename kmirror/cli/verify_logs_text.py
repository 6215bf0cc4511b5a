"""The report of `kmirror verify-logs` as text and as JSON, and the words that its page shares
(`verify_logs_html`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from kmirror.verify.replay.findings import SCHEMA_VERSION, Finding
from kmirror.verify.replay.folder import ReplaySettings
from kmirror.verify.replay.tables import LogRow, ReplayTables, as_dict


def not_looked_at(settings: ReplaySettings) -> list[str]:
    """Returns what the verdict does not speak of, because of how it was asked for."""
    unseen = []
    if not settings.check_crc:
        unseen.append("CRCs (--no-crc)")
    if not settings.unpack:
        unseen.append("records inside batches (--deep unpacks them)")
    if not settings.read_keys:
        unseen.append("keys of compacted topics (--no-keys)")
    return unseen


def text_report(location: str, tables: ReplayTables, unseen: Sequence[str] = ()) -> str:
    """Returns a line per log, its findings below it, and a summary with what is `unseen`."""
    findings: dict[str, list[Finding]] = {}
    for finding in tables.findings:
        findings.setdefault(finding.log, []).append(finding)
    open_transactions = Counter(row.log for row in tables.transactions if row.state == "ONGOING")
    lines = []
    for row in tables.logs:
        found = findings.get(row.log, [])
        lines.append(
            f"{log_name(location, row)}: {f'{len(found)} found' if found else 'sound'}, {log_summary(row, open_transactions[row.log])}"
        )
        lines += [f"  {finding_text(finding)}" for finding in found]
    lines += [finding_text(finding) for finding in without_log(tables)]
    return "\n".join([*lines, summary_line(tables, unseen)])


def without_log(tables: ReplayTables) -> list[Finding]:
    """Returns the findings about logs that are not there, or folders that are none."""
    logs = {row.log for row in tables.logs}
    return [finding for finding in tables.findings if finding.log not in logs]


def summary_line(tables: ReplayTables, unseen: Sequence[str] = ()) -> str:
    """`12 logs, 2 with findings (indexes wrong: 1, structure crc: 3); not looked at: CRCs`"""
    kinds = Counter(f"{finding.table} {finding.kind}" for finding in tables.findings)
    wrong = sum(row.findings > 0 for row in tables.logs)
    named = f" ({', '.join(f'{kind}: {count}' for kind, count in sorted(kinds.items()))})"
    if wrong:
        rest = f", {wrong} with findings{named}"
    elif tables.findings:
        rest = f", each sound, but not the set of them{named}"
    else:
        rest = ", all sound"
    not_seen = f"; not looked at: {', '.join(unseen)}" if unseen else ""
    return f"{len(tables.logs)} log{'' if len(tables.logs) == 1 else 's'}{rest}{not_seen}"


def log_name(location: str, row: LogRow) -> str:
    inside = row.log.partition(location.rstrip("/") + "/")[2]
    return inside or f"{row.topic}-{row.partition}"


def log_summary(row: LogRow, open_transactions: int) -> str:
    gaps = f", {row.missing_offsets} offsets in no batch" if row.missing_offsets else ""
    hanging = f", {open_transactions} open transaction{'' if open_transactions == 1 else 's'}" if open_transactions else ""
    return f"offsets {row.log_start_offset} to {row.log_end_offset} in {row.segments} segments of {row.size} bytes{gaps}{hanging}"


def finding_text(finding: Finding) -> str:
    """`<what>: <file>, byte N, offsets A to B: <why>`"""
    return f"{finding.table} {finding.kind}: {finding_place(finding)}: {finding.text}"


def finding_place(finding: Finding) -> str:
    """`<file>, byte N, offsets A to B`"""
    where = [finding.file]
    if finding.position is not None:
        where.append(f"byte {finding.position}")
    if finding.first_offset is not None and finding.last_offset is not None and finding.first_offset < finding.last_offset:
        where.append(f"offsets {finding.first_offset} to {finding.last_offset}")
    elif finding.first_offset is not None:
        where.append(f"offset {finding.first_offset}")
    return ", ".join(where)


def json_report(location: str, tables: ReplayTables, unseen: Sequence[str] = ()) -> str:
    return json.dumps(
        {
            "version": SCHEMA_VERSION,
            "input": location,
            "logs": [as_dict(row) for row in tables.logs],
            "findings": [as_dict(row) for row in tables.findings],
            "not_looked_at": list(unseen),
        },
        indent=2,
    )
