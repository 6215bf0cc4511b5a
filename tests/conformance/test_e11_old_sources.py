"""Sources of every age since 2.1 are asked in versions that they know, and what a later version
adds is used as soon as the source has it (UPG6, UPG8).
"""

from __future__ import annotations

import pytest
from support.mirrors.mirror_world import MirrorWorld
from support.mirrors.scripted_source import KAFKA_2_1, KAFKA_2_8, KAFKA_3_9, NEWEST

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import ApiKeys

AGES = [
    pytest.param(NEWEST, id="UPG6-UPG8-newest"),
    pytest.param(KAFKA_3_9, id="UPG6-UPG8-3.9"),
    pytest.param({**KAFKA_2_8, ApiKeys.FETCH: 13}, id="UPG8-first-with-ids"),
    pytest.param(KAFKA_2_8, id="UPG6-UPG8-2.8"),
    pytest.param({**KAFKA_2_1, ApiKeys.FETCH: 11}, id="UPG8-last-without-epochs"),
    pytest.param(KAFKA_2_1, id="UPG6-UPG8-2.1"),
    pytest.param({**KAFKA_2_1, ApiKeys.METADATA: 6}, id="UPG8-metadata-without-epochs"),
]
FIRST_FETCH_WITH_IDS, FIRST_FETCH_WITH_EPOCHS, FIRST_METADATA_WITH_EPOCHS = 13, 12, 7


@pytest.mark.parametrize("versions", AGES)
async def test_versions_are_agreed_on_each_connection(tmp_path, versions):
    """Every request in the highest version that both know; the log is the source's whatever its
    age.
    """
    world = MirrorWorld(str(tmp_path), versions)
    world.source.create("t")
    world.source.log("t").epoch = 4
    world.source.append("t", b"a", b"b")
    await world.mirror_topic("t")
    await world.advance(600)
    world.source.append("t", b"c")
    await world.advance(1_100)
    assert world.log_bytes("t") == world.source_bytes("t")
    for _, _, version, message in world.source.requests:
        key = ApiKeys(message.API_KEY)
        assert version == versions[key], key
    fetches = world.source.fetches()
    rows = [row for request in fetches for topic in request.topics for row in topic.partitions]
    names = {topic.topic for request in fetches for topic in request.topics}
    ids = {topic.topic_id for request in fetches for topic in request.topics}
    by_id = versions[ApiKeys.FETCH] >= FIRST_FETCH_WITH_IDS
    assert (names, ids) == (({""}, {world.source.topic_ids["t"]}) if by_id else ({"t"}, {Uuid.ZERO}))
    assert {row.last_fetched_epoch for row in rows} == ({-1, 4} if versions[ApiKeys.FETCH] >= FIRST_FETCH_WITH_EPOCHS else {-1})
    assert {row.current_leader_epoch for row in rows} == ({4} if versions[ApiKeys.METADATA] >= FIRST_METADATA_WITH_EPOCHS else {-1})
