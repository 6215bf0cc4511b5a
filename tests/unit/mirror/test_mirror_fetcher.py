"""The mirror fetcher against a source that does as it is told."""

from __future__ import annotations

import scripted_source
from scripted_source import MirrorWorld


def test_records_arrive_as_they_are(tmp_path):
    async def scenario():
        world = MirrorWorld(str(tmp_path))
        world.source.create("t")
        world.source.append("t", b"a", b"b")
        (driver,) = await world.mirror_topic("t")
        await world.advance(600)
        world.source.append("t", b"c")
        await world.settle()
        assert world.log_bytes("t") == world.source_bytes("t") != b""
        assert driver.status.source_offset == driver.log.log_end_offset == driver.log.high_watermark == 3
        assert (driver.given_back, driver.status.reason) == ([], None)

    scripted_source.run(scenario)
