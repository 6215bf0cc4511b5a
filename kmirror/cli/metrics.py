"""`kmirror metrics`: the metrics of nodes, by their JMX names.

They are read from the HTTP endpoints of `kmirror.http.listener`.

    kmirror metrics --url http://host:port                       of one node
    kmirror metrics --bootstrap-server host:port                 of every broker of a cluster that has the endpoint
    kmirror metrics --url ... --filter 'BytesInPerSec|name=Size' only MBeans (or `mbean:attribute`) that match
    kmirror metrics --url ... --json                             {node: {mbean: {attribute: value}}}
    kmirror metrics --url ... --watch 5                          again every 5 seconds until Ctrl-C

The brokers themselves are asked for their endpoints (DescribeConfigs). An endpoint that is bound to
every interface is read at the broker's advertised host.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigResourceType
from kmirror.cli.tool_client import with_admin
from kmirror.common.addresses import address_text
from kmirror.common.errors import KmirrorError
from kmirror.server.node_http import HTTP_LISTENER_CONFIG, parse_http_listener

TIMEOUT_S = 10.0
_EVERY_INTERFACE = ("", "0.0.0.0", "::")
Beans = Mapping[str, Mapping[str, Any]]


def add_arguments(parser: argparse.ArgumentParser, command: str) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url", action="append", default=[], metavar="URL", help="a node's endpoint, http://host:port; may be repeated")
    where.add_argument("--bootstrap-server", metavar="HOST:PORT", help="a broker of the cluster whose nodes are asked for their metrics")
    parser.add_argument("--command-config", metavar="FILE", help="settings of the admin client that --bootstrap-server uses")
    parser.add_argument(
        "--filter", metavar="REGEX", help="show only metrics for which this regular expression matches `mbean` or `mbean:attribute`"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--watch", type=_seconds, metavar="SECONDS", help="print the metrics again after this number of seconds, until Ctrl-C"
    )


def run(command: str, options: argparse.Namespace) -> int:
    try:
        wanted = re.compile(options.filter) if options.filter else None
    except re.error as error:
        raise KmirrorError(f"--filter {options.filter!r} is not a regular expression: {error}") from error
    urls = {url: url for url in options.url} or with_admin(options.bootstrap_server, options.command_config, endpoints)
    while True:
        nodes = {name: matching(read(url), wanted) for name, url in urls.items()}
        print(json.dumps(nodes) if options.json else tables(nodes), flush=True)
        if options.watch is None:
            return 0
        time.sleep(options.watch)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


async def endpoints(admin: AdminClient) -> dict[str, str]:
    """Returns the URL of each broker with an endpoint, by `broker N`; KmirrorError if none has."""
    found: dict[str, str] = {}
    for node in (await admin.describe_cluster()).nodes:
        entries = await admin.describe_configs(ConfigResourceType.BROKER, str(node.id))
        listener = next((entry.value for entry in entries if entry.name == HTTP_LISTENER_CONFIG and entry.value), None)
        if listener is not None:
            host, port = parse_http_listener(listener)
            host = node.host if host in _EVERY_INTERFACE else host
            found[f"broker {node.id}"] = f"http://{address_text(host, port)}"
    if not found:
        raise KmirrorError(f"no broker of this cluster has {HTTP_LISTENER_CONFIG} set")
    return found


def read(url: str) -> Beans:
    """Returns the metrics of one node; KmirrorError if they cannot be read."""
    if not url.startswith("http://"):
        raise KmirrorError(f"{url} is not of the form http://host:port")
    address = url.rstrip("/").removesuffix("/metrics") + "/metrics.json"
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S) as response:
            beans: Beans = json.load(response)
    except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
        raise KmirrorError(f"{address}: {getattr(error, 'reason', None) or error}") from error
    return beans


def matching(beans: Beans, wanted: re.Pattern[str] | None) -> dict[str, dict[str, Any]]:
    """Returns the requested attributes, by MBean, in the order of the names."""
    found: dict[str, dict[str, Any]] = {}
    for bean in sorted(beans):
        whole = wanted is None or wanted.search(bean)
        shown = {name: value for name, value in beans[bean].items() if whole or (wanted and wanted.search(f"{bean}:{name}"))}
        if shown:
            found[bean] = shown
    return found


def tables(nodes: Mapping[str, Beans]) -> str:
    """Returns a line per MBean: its name, then its value, or its attributes by name."""
    parts: list[str] = []
    for name, beans in nodes.items():
        width = max(map(len, beans), default=0)
        rows = [f"{bean:<{width}}  {_attributes(attributes)}" for bean, attributes in beans.items()]
        parts.append("\n".join([*([f"{name}:"] if len(nodes) > 1 else []), *(rows or ["No metrics found"])]))
    return "\n\n".join(parts)


def _attributes(attributes: Mapping[str, Any]) -> str:
    if list(attributes) == ["Value"]:
        return _number(attributes["Value"])
    return " ".join(f"{name}={_number(value)}" for name, value in attributes.items())


def _number(value: Any) -> str:
    if value is None:
        return "NaN"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
