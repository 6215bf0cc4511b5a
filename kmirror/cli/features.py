"""`kafka-features`: describe, upgrade, downgrade and disable features; options and output of
Kafka's tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kmirror.cli.tool_commands import CommandParser, connection, run_command_tool
from kmirror.cli.tool_options import CommandError, print_json

if TYPE_CHECKING:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.admin.features import FeatureMetadata, UpgradeType

COMMANDS = "{describe,upgrade,downgrade,disable,version-mapping,feature-dependencies}"


class FeaturesParser(CommandParser):
    in_one_line = True


def build_parser() -> CommandParser:
    parser = FeaturesParser(prog="kafka-features", description="This tool manages feature flags in Kafka.", allow_abbrev=False)
    connection(parser, required=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar=COMMANDS)
    describe = commands.add_parser("describe", help="describe the feature levels of the cluster")
    describe.add_argument("--node-id", type=int, help="the id of the node to ask (default: any node)")
    describe.add_argument("--json", action="store_true", help="print JSON")
    for name in ("upgrade", "downgrade"):
        command = commands.add_parser(name, help=f"{name} one or more features")
        command.add_argument("--metadata", help=f"deprecated: the release to {name} metadata.version to, such as 4.3-IV0")
        command.add_argument("--release-version", help=f"the release to {name} all features to, such as 4.3-IV0")
        command.add_argument("--feature", action="append", metavar="NAME=LEVEL", help="a feature and its new level")
        _change_options(command, unsafe=name == "downgrade")
    disable = commands.add_parser("disable", help="disable one or more features: the same as downgrading to 0")
    disable.add_argument("--feature", action="append", help="a feature to disable")
    _change_options(disable, unsafe=True)
    mapping = commands.add_parser("version-mapping", help="print the feature levels that go with a release, the latest by default")
    mapping.add_argument("--release-version", help="the release, such as 4.0-IV3")
    dependencies = commands.add_parser("feature-dependencies", help="print the dependencies of feature levels")
    dependencies.add_argument("--feature", action="append", required=True, metavar="NAME=LEVEL", help="a feature and its level")
    return parser


def _change_options(command: argparse.ArgumentParser, *, unsafe: bool) -> None:
    command.set_defaults(unsafe=False)
    if unsafe:
        command.add_argument("--unsafe", action="store_true", help="downgrade even if metadata may be lost for ever")
    command.add_argument("--dry-run", action="store_true", help="only check whether the change is possible")


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.feature_versions import feature_dependencies, version_mapping
    from kmirror.cli.tool_client import with_admin

    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise CommandError("You must specify either --bootstrap-controller or --bootstrap-server.")
    if options.command == "version-mapping":
        print("\n".join(version_mapping(options.release_version)))
        return 0
    if options.command == "feature-dependencies":
        print("\n".join(feature_dependencies(options.feature)))
        return 0
    updates = {} if options.command == "describe" else wanted_levels(options)

    async def work(admin: AdminClient) -> None:
        if options.command == "describe":
            _print_features(await admin.describe_features(node_id=options.node_id), as_json=options.json)
        else:
            await _update(admin, options, updates)

    with_admin(
        options.bootstrap_server or options.bootstrap_controller,
        options.command_config,
        work,
        controllers=options.bootstrap_controller is not None,
    )
    return 0


def _print_features(features: FeatureMetadata, *, as_json: bool) -> None:
    from kmirror.cli.feature_versions import level_text

    epoch = "-" if features.finalized_features_epoch < 0 else str(features.finalized_features_epoch)
    rows = []
    for name in sorted(features.supported_features):
        low, high = features.supported_features[name]
        rows.append((name, level_text(name, low), level_text(name, high), level_text(name, features.finalized_features.get(name, 0))))
    if as_json:
        keys = ("feature", "supportedMinVersion", "supportedMaxVersion", "finalizedVersionLevel")
        print_json({"epoch": features.finalized_features_epoch, "features": [dict(zip(keys, row, strict=True)) for row in rows]})
        return
    for name, lowest, highest, finalized in rows:
        supported = f"SupportedMinVersion: {lowest:<15}  SupportedMaxVersion: {highest:<15}"
        print(f"Feature: {name:<40}  {supported}  FinalizedVersionLevel: {finalized:<15}  Epoch: {epoch}")


def wanted_levels(options: argparse.Namespace) -> dict[str, tuple[int, UpgradeType]]:
    """Returns the level of each feature that the options ask for."""
    from kmirror.admin.features import UpgradeType
    from kmirror.cli.feature_versions import MAPPED, metadata_version, parse_name_and_level
    from kmirror.metadata.features import METADATA_VERSION, default_level

    kind = UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE
    if options.command == "disable":
        pairs = [(name, 0) for name in options.feature or ()]
    else:
        kind = UpgradeType.UPGRADE if options.command == "upgrade" else kind
        pairs = []
        if options.release_version is not None:
            if options.metadata is not None or options.feature is not None:
                raise CommandError("Can not specify `release-version` with other feature flags.")
            version = metadata_version(options.release_version)
            levels = [(name, default_level(name, version)) for name in MAPPED]
            pairs = [
                (METADATA_VERSION, version),
                *((name, level) for name, level in levels if kind is not UpgradeType.UPGRADE or level > 0),
            ]
        if options.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.")
            pairs.append((METADATA_VERSION, metadata_version(options.metadata)))
        pairs += [parse_name_and_level(text) for text in options.feature or ()]
    updates = {}
    for name, level in pairs:
        if name in updates:
            raise CommandError(f"Feature {name} was specified more than once.")
        updates[name] = (level, kind)
    if not updates:
        raise CommandError(f"You must specify at least one feature to {options.command}")
    return updates


async def _update(admin: AdminClient, options: argparse.Namespace, updates: dict[str, tuple[int, UpgradeType]]) -> None:
    from kmirror.common.errors import ApiException

    try:
        results = await admin.update_features(updates, validate_only=options.dry_run)
    except ApiException as error:
        results = dict.fromkeys(updates, error)
    verb = options.command
    for name in sorted(results):
        level, error_of_feature = updates[name][0], results[name]
        if error_of_feature is None:
            done = "disabled." if verb == "disable" else f"{verb}d to {level}."
            print(f"{name} {'can be' if options.dry_run else 'was'} {done}")
        else:
            what = f"disable {name}" if verb == "disable" else f"{verb} {name} to {level}"
            print(f"{'Can' if options.dry_run else 'Could'} not {what}. {error_of_feature.message}")
    failures = sum(error is not None for error in results.values())
    if failures:
        raise CommandError(f"{failures} out of {len(updates)} operation(s) failed.")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_command_tool(build_parser(), arguments, run)


if __name__ == "__main__":
    sys.exit(main())
