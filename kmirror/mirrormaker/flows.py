"""The flows that a MirrorMaker 2 configuration means to run, for what converts it. No I/O.

`MirrorMakerConfig` resolves a driver's file as Apache does. Here a file is read for its intent: a
connector's own file (`source.cluster.alias`, `source.cluster.bootstrap.servers`) is one flow, blanks
around values do not count, and KIP-382's samples, which enable no flow, mean those that they give
settings. A flow's setting (`A->B.x`) beats the top level; old names count (`property_names`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.property_names import current_name, words


class Flow(NamedTuple):
    """One flow, from and to these aliases, with settings under their current names.

    `settings` are the flow's own and the top level's; in `cluster_settings` a cluster's begin with
    its alias.
    """

    source: str
    target: str
    settings: dict[str, str]
    cluster_settings: dict[str, str]


def enabled_flows(properties: Mapping[str, str]) -> list[Flow]:
    """Returns the flows that run. ConfigError when the file names none."""
    if "source.cluster.bootstrap.servers" in properties:
        return [_connector_flow(properties)]
    clusters = list(dict.fromkeys(words(properties.get("clusters", ""))))
    if not clusters:
        raise ConfigError("no 'clusters' and no 'source.cluster.bootstrap.servers': this is not a configuration of MirrorMaker 2")
    settings = {current_name(name, clusters): value.strip() for name, value in properties.items()}
    flows = [(source, target) for source in clusters for target in clusters if source != target]
    prefixes = tuple(f"{source}->{target}." for source, target in flows)
    unknown = sorted(name.split(".", 1)[0] for name in settings if "->" in name and not name.startswith(prefixes))
    if unknown:
        raise ConfigError(f"flow {unknown[0]} is between clusters that 'clusters' does not name: {', '.join(clusters)}")
    running = [flow for flow in flows if _flow_settings(settings, clusters, *flow).get("enabled", "false").lower() == "true"]
    if not running and not any(f"{prefix}enabled" in settings for prefix in prefixes):
        running = [flow for flow in flows if any(name.startswith("->".join(flow) + ".") for name in settings)]  # KIP-382's own samples
    if not running:
        raise ConfigError(f"no flow is enabled: one needs {clusters[0]}->{clusters[-1]}.enabled = true")
    return [Flow(source, target, _flow_settings(settings, clusters, source, target), settings) for source, target in running]


def _flow_settings(settings: Mapping[str, str], clusters: list[str], source: str, target: str) -> dict[str, str]:
    """Returns the settings of a flow: those of the top level, overridden by its own."""
    prefix = f"{source}->{target}."
    own = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    top = {
        name: value
        for name, value in settings.items()
        if "->" not in name and not name.startswith(tuple(f"{cluster}." for cluster in clusters)) and (name != "enabled" or value)
    }
    return top | own


def _connector_flow(properties: Mapping[str, str]) -> Flow:
    """Returns the flow of a connector's own file, with cluster settings under their aliases."""
    source = properties.get("source.cluster.alias", "source")
    target = properties.get("target.cluster.alias", "target")
    named: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in properties.items():
        name = current_name(name, ())
        for role, alias in (("source", source), ("target", target)):
            for prefix in (f"{role}.cluster.", f"{role}."):
                if name.startswith(prefix):
                    named[f"{alias}.{name.removeprefix(prefix)}"] = value.strip()
                    break
            else:
                continue
            break
        else:
            rest[name] = value.strip()
    for alias in (source, target):
        named.pop(f"{alias}.alias", None)
    return Flow(source, target, rest, named)
