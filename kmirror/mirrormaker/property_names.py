"""Old names of MirrorMaker 2's properties: those of KIP-382's texts, and their current names.

KIP-382 and its drafts used names that Kafka changed before or after the release. A file with old
names means what it means with the new ones; where a file has both, the new one counts. Apache Kafka
ignores old names without a word.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

RENAMED: Final = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
}
SWITCHES: Final = ("sync.topic.configs", "sync.topic.acls", "emit.heartbeats", "emit.checkpoints", "refresh.topics", "refresh.groups")
"""Settings that once had names without `.enabled`."""
IDENTITY_POLICY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_LEGACY_POLICY: Final = re.compile(r"org\.apache\.kafka\.(?:connect\.)?mirror\.LegacyReplicationPolicy")
_POLICY_CLASS: Final = "replication.policy.class"
_RENAME_TOPICS: Final = "rename.topics"
_OLD_OVERRIDE: Final = re.compile(r"(source|target)\.cluster\.(consumer|producer|admin)\.")


def words(text: str) -> list[str]:
    """Returns the entries of a list that is separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def flow_prefix(name: str, clusters: Collection[str]) -> str:
    """Returns `A->B.` if the name begins so for two of the clusters. An alias may contain dots."""
    flows = (f"{source}->{target}." for source in clusters for target in clusters)
    return next((flow for flow in flows if name.startswith(flow)), "")


def current_name(name: str, clusters: Collection[str] = ()) -> str:
    """Returns the current name of a property of a driver's file, or of a connector's without
    `clusters`.
    """
    name = name.strip()
    for cluster in clusters:
        if name.startswith(f"cluster.{cluster}."):
            name = name.removeprefix("cluster.")
        if name == f"{cluster}.broker.list":
            name = f"{cluster}.bootstrap.servers"
    prefix = flow_prefix(name, clusters)
    bare = name.removeprefix(prefix)
    bare = RENAMED.get(bare, f"{bare}.enabled" if bare in SWITCHES else bare)
    return prefix + _OLD_OVERRIDE.sub(r"\1.\2.", bare, count=1) if prefix or not clusters else bare


def current_names(properties: Mapping[str, str], clusters: Collection[str] = ()) -> dict[str, str]:
    """Returns the properties under their current names, values as they are."""
    found: dict[str, str] = {}
    for name, value in properties.items():
        current = current_name(name, clusters)
        if current == name or (current not in found and current not in properties):
            found[current] = value
    for name in [name for name in found if name.endswith(_RENAME_TOPICS)]:
        prefix = name.removesuffix(_RENAME_TOPICS)
        if prefix == flow_prefix(name, clusters) and found.pop(name).strip().lower() == "false":
            found.setdefault(prefix + _POLICY_CLASS, IDENTITY_POLICY)
    for name, value in found.items():
        if name.endswith(_POLICY_CLASS) and _LEGACY_POLICY.fullmatch(value.strip()):
            found[name] = IDENTITY_POLICY
    return found
