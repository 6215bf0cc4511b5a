"""`kafka-mirrors --from-mm2 mm2.properties [--output DIR]`: shows what `mm2_converter` found, and what
its lists match at the sources (`mm2_matches`).

It prints the result, or with --output writes it as files to run: `<mirror>.properties` (the
mirror's config), `<mirror>.command.properties` if the target is secured (--command-config),
`commands.sh`, and `notes.txt`. Only their owner can read files that hold security settings. On the
screen passwords are hidden.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kmirror.cli.mm2_converter import ConvertedFlow, convert
from kmirror.cli.mm2_matches import note_matches
from kmirror.cli.properties import read_properties
from kmirror.common.errors import KmirrorError
from kmirror.runtime.asyncio_runtime import run
from kmirror.storage.java_properties import escape

SECRETS = ("sasl.jaas.config", "password", "passphrase", "secret", "ssl.keystore.key")
HIDDEN = "(hidden; --output writes it)"


def run_from_mm2(options: argparse.Namespace) -> int:
    """Convert the file, ask the sources, and show the result; returns the exit code."""
    properties = read_properties(options.from_mm2)
    try:
        flows = convert(properties)
    except KmirrorError as error:
        raise KmirrorError(f"{options.from_mm2}: {error}") from error
    run(lambda runtime: note_matches(runtime, flows))
    written = [] if options.output is None else write_files(flows, options.output)
    print(json.dumps([_as_json(flow) for flow in flows], indent=2) if options.json else "\n\n".join(map(flow_text, flows)))
    if options.output is not None and not options.json:
        print(f"\nWritten to {options.output}: {', '.join(sorted(written))}")
    return 0


def flow_text(flow: ConvertedFlow) -> str:
    """Returns text for people: the mirror, the commands, the notes, and what is not converted."""
    lines = [
        f"{flow.source} -> {flow.target}: mirror {flow.mirror_name} at {flow.target} ({flow.target_bootstrap})",
        "",
        flow.config_file,
    ]
    lines += [f"    {name}={_shown(name, value)}" for name, value in flow.mirror_configs.items()]
    if flow.command_configs:
        lines += ["", flow.command_file]
        lines += [f"    {name}={_shown(name, value)}" for name, value in flow.command_configs.items()]
    lines += ["", "commands", *(f"    {command}" for command in commands(flow))]
    lines += ["", "notes", *(f"    {note}" for note in flow.notes)]
    lines += ["", "not converted", *(f"    {name}: {reason}" for name, reason in flow.not_converted.items())]
    return "\n".join(lines)


def commands(flow: ConvertedFlow) -> Iterator[str]:
    """Yields commands that create the mirror, show what would be dropped, add the topics, watch."""
    tool = ["kafka-mirrors", "--bootstrap-server", flow.target_bootstrap]
    if flow.command_configs:
        tool += ["--command-config", flow.command_file]
    tool += ["--mirror", flow.mirror_name]
    topics = ["--topic", flow.topic_pattern]
    secured = ["--mirror-config", flow.config_file] if len(flow.mirror_configs.keys() & {"security.protocol", "sasl.jaas.config"}) else []
    factor = [] if flow.replication_factor is None else ["--replication-factor", str(flow.replication_factor)]
    for words in (
        [*tool, "--create", "--mirror-config", flow.config_file],
        [*tool, "--add", *topics, *secured, "--dry-run"],
        [*tool, "--add", *topics, *secured, *factor],
        [*tool, "--describe"],
    ):
        yield shlex.join(words)


def write_files(flows: list[ConvertedFlow], folder: Path) -> list[str]:
    """Write the files of all flows and return their names; OSError if that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    private = {flow.config_file: _properties(flow.mirror_configs) for flow in flows}
    private |= {flow.command_file: _properties(flow.command_configs) for flow in flows if flow.command_configs}
    for name, data in private.items():
        _write(folder / name, data, private=True)
    script = "\n".join(command for flow in flows for command in (f"# {flow.source} -> {flow.target}", *commands(flow)))
    _write(folder / "commands.sh", f"set -eu\n{script}\n".encode(), private=False)
    _write(folder / "notes.txt", ("\n\n".join(map(flow_text, flows)) + "\n").encode(), private=False)
    return [*private, "commands.sh", "notes.txt"]


def _write(path: Path, data: bytes, *, private: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o644)
    with os.fdopen(descriptor, "wb") as file:
        if private:
            os.fchmod(descriptor, 0o600)  # otherwise an existing file would keep its mode
        file.write(data)


def _properties(settings: dict[str, str]) -> bytes:
    """Returns the settings as a properties file that people can read, too."""
    return "".join(f"{name}={escape(value, also='')}\n" for name, value in settings.items()).encode("ascii")


def _shown(name: str, value: str) -> str:
    return HIDDEN if any(secret in name for secret in SECRETS) else value.replace("\n", "\\n")


def _as_json(flow: ConvertedFlow) -> dict[str, Any]:
    return {
        "source": flow.source,
        "target": flow.target,
        "mirror": flow.mirror_name,
        "mirrorConfigs": {name: _shown(name, value) for name, value in flow.mirror_configs.items()},
        "topicPattern": flow.topic_pattern,
        "commands": list(commands(flow)),
        "notes": flow.notes,
        "notConverted": flow.not_converted,
    }
