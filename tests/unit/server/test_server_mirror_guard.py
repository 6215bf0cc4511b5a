"""DeleteTopics on a cluster with mirrors, as the broker that takes the request sees it; the
controller is scripted (B30).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine

from kmirror.common.errors import Errors
from kmirror.server.apis.mirror_guard import handle_delete_topics
from kmirror.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord


@dataclass(frozen=True)
class Asked:
    message: DeleteTopicsRequest


class ObedientController:
    """Deletes whatever it is asked to delete: what a removal that is carried out in between makes
    of it.
    """

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def forward(self, request: Any) -> DeleteTopicsResponse:
        return await self.send(request.message)

    async def send(self, message: DeleteTopicsRequest) -> DeleteTopicsResponse:
        names = [state.name for state in message.topics]
        self.deleted += [name for name in names if name is not None]
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name, error_code=0) for name in names])


async def delete(machine: MirrorMachine, controller: ObedientController) -> Errors:
    auth = SimpleNamespace(may_on_cluster=lambda *arguments, **named: True)
    apis: Any = SimpleNamespace(mirror=machine.mirror, auth=auth, controller=controller)
    request: Any = Asked(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    response = await handle_delete_topics(apis, request)
    return Errors.for_code(response.responses[0].error_code)


@pytest.mark.parametrize("name", [MIRROR, f"{MIRROR}.paused", f"{MIRROR}.removed"])
async def test_a_removal_that_overtakes_a_deletion_does_not_have_a_running_mirror_deleted(tmp_path: Path, name: str) -> None:
    """Found by `kmirror sim --history mirrors`: forwarded as "the controller refuses it", the
    request came there after the removal, and the topic was deleted while it was STOPPING.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring()
    machine.mirror_controller.fail = lambda request: TimeoutError("nothing stops meanwhile")
    machine.name(name)
    controller = ObedientController()
    about_to_be_writable = name.endswith(".removed")
    assert await delete(machine, controller) is (Errors.NOT_LEADER_OR_FOLLOWER if about_to_be_writable else Errors.READ_ONLY_TOPIC)
    assert controller.deleted == []
    await machine.close()


async def test_a_topic_that_goes_while_its_states_are_asked_for_is_the_controllers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors, seed 13201: an assertion failed, and the client lost its connection instead of
    hearing UNKNOWN_TOPIC_OR_PARTITION.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring()
    read = machine.mirror.states.read

    async def read_late(wanted: Any) -> Any:
        found = await read(wanted)
        machine.apply(RemoveTopicRecord(topic_id=machine.mirror.image().topics.topic("t").id))
        return found

    monkeypatch.setattr(machine.mirror.states, "read", read_late)
    controller = ObedientController()
    assert await delete(machine, controller) is Errors.NONE
    assert controller.deleted == ["t"]
    await machine.close()


async def test_what_is_stopped_is_deleted(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring()
    machine.name(f"{MIRROR}.removed")
    await machine.reach("STOPPED")
    controller = ObedientController()
    assert await delete(machine, controller) is Errors.NONE
    assert controller.deleted == ["t"]
    await machine.close()
