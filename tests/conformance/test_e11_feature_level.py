"""The feature `mirror.version` and the unstable switches: what is advertised and answered with and
without them (E11, RS15).
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.metadata_doubles import CLUSTER_ID, ControllerDouble
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.metadata.features import METADATA_VERSION_NAMES
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.server.kafka_config import KafkaConfig
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import create_topics
from kmirror.wire.messages import find_coordinator as coordinator
from kmirror.wire.messages import update_features as features
from kmirror.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.mirror_dialect import DEFAULT_REVISION, MIRROR_API_KEYS

E = Errors
K = ApiKeys
ROOT = pathlib.Path(__file__).resolve().parents[2]
APIS_ON, FEATURES_ON = {"unstable.api.versions.enable": "true"}, {"unstable.feature.versions.enable": "true"}
CHANGED = {
    K.FETCH: (18, 19),
    K.CREATE_TOPICS: (7, 8),
    K.FIND_COORDINATOR: (6, 7),
    K.DESCRIBE_CONFIGS: (4, 5),
    K.INCREMENTAL_ALTER_CONFIGS: (1, 2),
}
BROKER_ONLY = {K.LIST_MIRRORS, K.DESCRIBE_MIRRORS}
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def versions(cluster: EmbeddedCluster, *, controller: bool = False) -> ApiVersionsResponse:
    node = cluster.nodes[0]
    address = f"127.0.0.1:{node.controller_port if controller else node.port}"
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer: ApiVersionsResponse = send(address, request)
    return answer


def ranges(cluster: EmbeddedCluster, *, controller: bool = False) -> dict[int, tuple[int, int]]:
    return {row.api_key: (row.min_version, row.max_version) for row in versions(cluster, controller=controller).api_keys}


def update(cluster: EmbeddedCluster, level: int, kind: int = UPGRADE) -> tuple[Errors, str | None]:
    """Sets the level of mirror.version, and returns the answer."""
    wanted = features.FeatureUpdateKey(feature="mirror.version", max_version_level=level, upgrade_type=kind)
    answer = send(cluster.bootstrap_servers, features.UpdateFeaturesRequest(timeout_ms=9_000, feature_updates=[wanted]))
    return E.for_code(answer.error_code), answer.error_message


def finalized(cluster: EmbeddedCluster) -> int:
    return next((row.max_version_level for row in versions(cluster).finalized_features if row.name == "mirror.version"), 0)


@pytest.fixture(scope="module")
def early() -> Iterator[EmbeddedCluster]:
    """A cluster of two brokers at level 0, with both switches on."""
    with EmbeddedCluster(2, config=FAST_MIRROR | APIS_ON | FEATURES_ON | {"mirror.topic.replication.factor": "2"}) as made:
        yield made


def test_upg1_disabled_by_default_and_not_advertised() -> None:
    """Neither listener advertises the eleven APIs or the versions that mirroring adds, and the
    feature is unknown (A1, A2).
    """
    with EmbeddedCluster() as cluster:
        for controller in (False, True):
            served = ranges(cluster, controller=controller)
            assert not set(served) & set(MIRROR_API_KEYS)
            assert {key: served[key][1] for key in CHANGED if key in served} == {key: CHANGED[key][0] for key in CHANGED if key in served}
            assert "mirror.version" not in [row.name for row in versions(cluster, controller=controller).supported_features]
        assert update(cluster, 1)[0] is E.INVALID_UPDATE_VERSION
        with pytest.raises(ApiException) as refused:
            create_mirror(cluster.bootstrap_servers, "m", "127.0.0.1:1")
        assert refused.value.error is E.UNSUPPORTED_VERSION


def test_upg1_with_one_switch_only() -> None:
    """Without the switch for features the level cannot be raised.

    Without the switch for APIs nothing is advertised, whatever the level.
    """
    with EmbeddedCluster(config=APIS_ON) as cluster:
        assert set(ranges(cluster)) >= set(MIRROR_API_KEYS)
        error, text = update(cluster, 1)
        assert error is E.INVALID_UPDATE_VERSION and text is not None and "does not support this feature" in text
        with pytest.raises(ApiException) as refused:
            create_mirror(cluster.bootstrap_servers, "m", "127.0.0.1:1")
        assert refused.value.error is E.UNSUPPORTED_VERSION
    with EmbeddedCluster(config=FEATURES_ON) as cluster:
        assert update(cluster, 1) == (E.NONE, None)
        assert not set(ranges(cluster)) & set(MIRROR_API_KEYS)


def test_upg1_every_node_needs_the_switch() -> None:
    with EmbeddedCluster(2, config=APIS_ON | FEATURES_ON, node_config={1: {"unstable.feature.versions.enable": "false"}}) as cluster:
        error, text = update(cluster, 1)
        assert error is E.INVALID_UPDATE_VERSION and text is not None and "Broker 2 does not support this feature" in text


@pytest.mark.parametrize("supported", [None, (0, 0)])
def test_upg1_a_broker_without_the_level_is_refused_at_registration(supported: tuple[int, int] | None) -> None:
    controller = ControllerDouble(mirroring=True)
    known = [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]
    if supported is not None:
        known.append(Feature(name="mirror.version", min_supported_version=supported[0], max_supported_version=supported[1]))
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=Uuid(b"0123456789abcdef"),
        listeners=[Listener(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=known,
        log_dirs=[Uuid(b"fedcba9876543210")],
    )
    with pytest.raises(ApiException, match=r"does not support finalized version 1 of mirror\.version") as refused:
        controller.run(controller.cluster.register_broker(request))
    assert refused.value.error is E.UNSUPPORTED_VERSION


def test_upg1_a_broker_whose_switch_was_taken_away_does_not_come_back() -> None:
    """It exits and names the levels that it supports; the cluster goes on without it."""
    with EmbeddedCluster(2, mirroring=True) as cluster:
        cluster.stop_node(1)
        cluster._node_config[1] = {"unstable.feature.versions.enable": "false"}
        with pytest.raises(ApiException, match=r"refuses to register broker 2: UNSUPPORTED_VERSION\..*metadata\.version 7-30") as refused:
            cluster.start_node(1)
        assert "mirror.version" not in refused.value.message
        create_mirror(cluster.bootstrap_servers, "m", "127.0.0.1:1")


@pytest.mark.parametrize("was_started", [True, False], ids=["started-before", "formatted-only"])
def test_upg1_a_controller_without_the_level_does_not_begin(tmp_path: pathlib.Path, was_started: bool) -> None:
    """The level is in its log, or in what it was formatted with, so it says so and exits as Kafka's
    controller does.
    """
    on = APIS_ON | FEATURES_ON
    EmbeddedCluster(mirroring=True, folder=tmp_path, cluster_id="lBq12jYZRp-9wF3M9MPopg", config=on).start().stop()
    if not was_started:
        shutil.rmtree(tmp_path / "node-1" / "data" / "__cluster_metadata-0")
    with pytest.raises(
        KmirrorError, match=r"FeatureLevelRecord\(name='mirror\.version', featureLevel=1\), but this controller only supports versions 0$"
    ):
        EmbeddedCluster(folder=tmp_path, cluster_id="lBq12jYZRp-9wF3M9MPopg").start()


@pytest.mark.item("A1")
def test_upg1_advertised_with_the_switch_by_listener(early: EmbeddedCluster) -> None:
    """Only brokers advertise keys 98 and 99; nobody advertises UnregisterController or 97 (A1)."""
    at_broker, at_controller = ranges(early), ranges(early, controller=True)
    assert {key: at_broker[key] for key in MIRROR_API_KEYS} == dict.fromkeys(MIRROR_API_KEYS, (0, 0))
    assert {key for key in at_controller if key in MIRROR_API_KEYS} == set(MIRROR_API_KEYS) - BROKER_ONLY
    assert {key: at_broker[key][1] for key in CHANGED} == {key: both[1] for key, both in CHANGED.items()}
    assert not {93, 97} & (set(at_broker) | set(at_controller))
    for controller in (False, True):
        levels = {row.name: (row.min_version, row.max_version) for row in versions(early, controller=controller).supported_features}
        assert levels["mirror.version"] == (0, 1)


def request_of(key: ApiKeys) -> Any:
    request: Any = API_TABLE[key].request()
    if hasattr(request, "mirror_name"):
        request.mirror_name = "m"
    return request


def check_all_unsupported(cluster: EmbeddedCluster) -> None:
    for key in sorted(MIRROR_API_KEYS):
        answer = send(cluster.bootstrap_servers, request_of(ApiKeys(key)))
        assert answer.error_code == E.UNSUPPORTED_VERSION, key
        assert getattr(answer, "mirror_name", "m") == "m"
        assert not [name for name in ("topics", "mirrors") if getattr(answer, name, [])]
    key = "m:AAAAAAAAAAAAAAAAAAAAAQ:0"
    found = send(cluster.bootstrap_servers, coordinator.FindCoordinatorRequest(key_type=3, coordinator_keys=[key]), version=7)
    assert found.coordinators[0].error_code == E.UNSUPPORTED_VERSION
    info = create_topics.MirrorInfo(topic_id=Uuid(b"0123456789abcdef"))
    topic = create_topics.CreatableTopic(name="with-id", num_partitions=1, replication_factor=1, mirror_info=info)
    answer = send(cluster.bootstrap_servers, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=9_000), version=8)
    assert answer.topics[0].error_code == E.UNSUPPORTED_VERSION


def test_rs15_upg2_upg5_up_and_down_at_run_time(early: EmbeddedCluster) -> None:
    """At level 0 requests get UNSUPPORTED_VERSION. Once the level is raised, mirrors work on every
    broker without a restart. It can be lowered only when the last mirror is gone.
    """
    address = early.bootstrap_servers
    assert finalized(early) == 0
    check_all_unsupported(early)
    assert update(early, 2)[0] is E.INVALID_UPDATE_VERSION
    assert update(early, 1) == (E.NONE, None)
    wait_for("the level", lambda: finalized(early) == 1)
    create_topic(address, "origin")
    create_mirror(address, "m", "127.0.0.1:1")
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        error, text = update(early, 0, kind)
        assert error is E.INVALID_UPDATE_VERSION and text is not None and text.endswith("mirrors exist (m); delete them first.")
    assert finalized(early) == 1
    call(address, lambda admin: admin.delete_mirror("m"))
    assert update(early, 0, UPGRADE)[0] is E.INVALID_UPDATE_VERSION
    assert update(early, 0, SAFE_DOWNGRADE) == (E.NONE, None)
    wait_for("the level", lambda: finalized(early) == 0)
    check_all_unsupported(early)
    topics = call(address, lambda admin: admin.list_topics(include_internal=True))
    assert "__mirror_state" in topics
    call(address, lambda admin: admin.delete_topics(["__mirror_state"])).all()
    assert update(early, 1) == (E.NONE, None)
    wait_for("mirrors again", lambda: call(address, lambda admin: admin.list_mirrors()) == [])
    create_mirror(address, "m", "127.0.0.1:1")
    call(address, lambda admin: admin.delete_mirror("m"))


def test_upg2_upg5_data_is_mirrored_after_each_upgrade_and_stays_after_a_downgrade() -> None:
    """The level goes up and down twice, and the state topic is deleted after each downgrade.

    At the end the node starts again without mirroring and takes writes.
    """
    config = FAST_MIRROR | APIS_ON | FEATURES_ON | {"mirror.topic.replication.factor": "1"}
    with EmbeddedCluster() as source, EmbeddedCluster(config=config) as cluster:
        address = cluster.bootstrap_servers
        create_topic(source.bootstrap_servers, "t")
        produce(source.bootstrap_servers, "t", numbered("v", 20))
        for _ in range(2):
            assert update(cluster, 1) == (E.NONE, None)
            wait_for("the level", lambda: finalized(cluster) == 1)
            create_mirror(address, "m", source.bootstrap_servers)
            add(address, "m", "t")
            wait_caught_up(address, source.bootstrap_servers, "m")
            remove(address, "m", "t")
            wait_state(address, "m", "STOPPED")
            call(address, lambda admin: admin.delete_mirror("m"))
            assert update(cluster, 0, SAFE_DOWNGRADE) == (E.NONE, None)
            wait_for("the level", lambda: finalized(cluster) == 0)
            call(address, lambda admin: admin.delete_topics(["__mirror_state"])).all()
        cluster.stop_node()
        cluster.start_node()
        assert finalized(cluster) == 0
        assert produce(address, "t", ["mine"]) == []


@pytest.mark.parametrize("level", [27, 29, 30])
def test_upg2_needs_metadata_version_4_3(level: int) -> None:
    controller = ControllerDouble(mirroring=True, levels={"metadata.version": level})
    controller._replay([FeatureLevelRecord(name="mirror.version", feature_level=0)])
    wanted = features.FeatureUpdateKey(feature="mirror.version", max_version_level=1, upgrade_type=UPGRADE)
    answer = controller.run(controller.features.update_features(features.UpdateFeaturesRequest(feature_updates=[wanted]), 2))
    if METADATA_VERSION_NAMES[level] == "4.3-IV0":
        assert answer.error_code == 0 and controller.state.mirroring_enabled
    else:
        assert answer.error_code == E.INVALID_UPDATE_VERSION
        assert "mirror.version could not be set to 1 because it depends on metadata.version level 30" in answer.error_message


def test_upg2_a_cluster_is_formatted_with_it_on_metadata_version_4_3_only(tmp_path: pathlib.Path) -> None:
    props = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": str(tmp_path / "data"),
    }

    def formatted(release: str, **more: str) -> None:
        config = KafkaConfig.from_props(props | more)
        options = FormatOptions(cluster_id="lBq12jYZRp-9wF3M9MPopg", release_version=release, features={"mirror.version": 1})

        async def main(runtime: Runtime) -> None:
            format_node(config, options, runtime)

        run(main)

    for release, switches, text in (
        ("4.3", {}, "No feature:mirror.version with feature level 1"),
        ("4.2", FEATURES_ON, "mirror.version could not be set to 1 because it depends on metadata.version level 30"),
    ):
        with pytest.raises(KmirrorError, match=text):
            formatted(release, **switches)
    formatted("4.3", **FEATURES_ON)


def guide() -> str:
    """Returns MIRRORING.md as one line of text."""
    return " ".join((ROOT / "docs" / "MIRRORING.md").read_text().replace("**", "").split())


def format_of(field: dict[str, Any]) -> Any:
    """Returns the parts of a schema that decide its bytes: no descriptions, no entity types."""
    kept = {
        key: value
        for key, value in field.items()
        if key in ("name", "type", "versions", "nullableVersions", "tag", "default", "flexibleVersions")
    }
    return kept | {"fields": [format_of(child) for child in field.get("fields", [])]}


def test_upg3_upg4_the_formats_belong_to_their_revision() -> None:
    """Schemas are frozen from the preview phase on. Until then a change of their bytes needs a new
    row of `mirror_dialect`, so it cannot happen unnoticed.
    """
    folders = (ROOT / "protocol" / "messages", ROOT / "protocol" / "records")
    names = sorted(
        path for folder in folders for path in folder.glob("*.json") if "Mirror" in path.name or path.name.startswith("BumpLeaderEpochs")
    )
    formats = [format_of(json.loads(path.read_text())) for path in names]
    digest = hashlib.sha256(json.dumps(formats, sort_keys=True).encode()).hexdigest()[:16]
    assert (DEFAULT_REVISION, len(names), digest) == ("kip-2026-04", 27, "b9b018e7be05b4b6")


def test_upg3_upg4_the_guide_names_the_phases_and_what_early_access_means() -> None:
    text = guide()
    assert "| preview | schemas are frozen; the feature is switched on explicitly, without the unstable switches |" in text
    assert "| general availability | on with the production `metadata.version` |" in text
    assert "Formats of requests and records may change without compatibility" in text


def test_upg5_the_guide_says_what_to_clean_up() -> None:
    assert "The topic `__mirror_state` stays and is yours to delete (manual clean-up)" in guide()


def test_upg6_upg7_upg8_the_guide_has_the_versions_that_work_together() -> None:
    text = guide()
    for row in (
        "| mirroring and failover | Apache Kafka 2.1 or later, kmirror | kmirror, 4.x |",
        "| failback from the last mirror epoch | 4.x with DescribeMirrors (API 99) | 4.x with mirroring |",
        "| offsets of share groups | 4.x | 4.x |",
        "Mirrors are not compatible with MirrorMaker 2.",
        "topic ids from Fetch v13 on, current leaders and diverging epochs from v12, leader epochs from Metadata v7",
    ):
        assert row in text, row
