"""Changes to brokers and controllers that records make (Kafka's `ClusterDelta`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kmirror.metadata.image import (
    ClusterImage,
)
from kmirror.metadata.registrations import BrokerRegistration, ControllerRegistration
from kmirror.metadata.replay_error import MetadataReplayError

if TYPE_CHECKING:
    from kmirror.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from kmirror.wire.messages.register_broker_record import RegisterBrokerRecord
    from kmirror.wire.messages.register_controller_record import RegisterControllerRecord
    from kmirror.wire.messages.unregister_broker_record import UnregisterBrokerRecord


class ClusterDelta:
    """Changed brokers and controllers by id; None for one that was unregistered."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        self.changed_controllers: dict[int, ControllerRegistration | None] = {}

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def _existing(self, broker_id: int, epoch: int, what: str) -> BrokerRegistration:
        broker = self.broker(broker_id)
        if broker is None:
            raise MetadataReplayError(f"Tried to {what} broker {broker_id}, but that broker was not registered.")
        if broker.epoch != epoch:
            raise MetadataReplayError(
                f"Tried to {what} broker {broker_id}, but the given epoch, {epoch}, did not match the current broker epoch, {broker.epoch}."
            )
        return broker

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._existing(record.broker_id, record.broker_epoch, "unregister")
        self.changed_brokers[record.broker_id] = None

    def replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._existing(record.broker_id, record.broker_epoch, "change the registration of")
        if record.fenced:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=record.in_controlled_shutdown > 0)
        if record.log_dirs:
            broker = replace(broker, directories=tuple(sorted(record.log_dirs)))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned_directories=tuple(record.cordoned_log_dirs))
        self.changed_brokers[record.broker_id] = broker

    def replay_fence(self, broker_id: int, epoch: int, *, fenced: bool) -> None:
        self.changed_brokers[broker_id] = replace(self._existing(broker_id, epoch, "fence" if fenced else "unfence"), fenced=fenced)

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def finish_snapshot(self) -> None:
        for broker_id in self.image.brokers:
            self.changed_brokers.setdefault(broker_id, None)
        for controller_id in self.image.controllers:
            self.changed_controllers.setdefault(controller_id, None)

    def apply(self) -> ClusterImage:
        if not self.changed_brokers and not self.changed_controllers:
            return self.image
        brokers = {**self.image.brokers, **self.changed_brokers}
        controllers = {**self.image.controllers, **self.changed_controllers}
        return ClusterImage(
            {broker_id: broker for broker_id, broker in brokers.items() if broker is not None},
            {controller_id: controller for controller_id, controller in controllers.items() if controller is not None},
        )
