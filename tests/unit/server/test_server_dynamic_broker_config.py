"""Dynamic broker configs reach the logs: this broker's before the cluster's before the file's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.brokers.broker_doubles import BrokerWorld

from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataProvenance
from kmirror.metadata.loader import LoaderManifest, LoaderManifestType
from kmirror.server.dynamic_broker_config import DynamicBrokerConfig, reconfigure_logs
from kmirror.wire.messages.config_record import ConfigRecord


async def test_the_nearest_scope_wins_and_removal_falls_back(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props={"log.retention.ms": "1000"})
    world.create_topic("t")
    world.create_topic("own", configs={"retention.ms": "7"})
    publisher = DynamicBrokerConfig(world.config, reconfigure_logs(world.log_manager))

    def set_config(broker: str, value: str | None, name: str = "log.retention.ms") -> tuple[int, int]:
        delta = MetadataDelta(world.cache.image)
        delta.replay(ConfigRecord(resource_type=4, resource_name=broker, name=name, value=value))
        image = delta.apply(MetadataProvenance(99, 1, 0))
        world.cache.set_image(image)
        manifest: Any = LoaderManifest(LoaderManifestType.LOG_DELTA, image.provenance)
        publisher.on_metadata_update(delta, image, manifest)
        return world.partition("t").log.config.retention_ms, world.partition("own").log.config.retention_ms

    assert set_config("", "2000") == (2000, 7)
    assert set_config("1", "3000") == (3000, 7)
    assert set_config("2", "4000") == (3000, 7), "another broker's"
    assert set_config("1", None) == (2000, 7)
    assert set_config("", "x") == (1000, 7), "what does not parse counts as not set"
    assert set_config("", None) == (1000, 7)
