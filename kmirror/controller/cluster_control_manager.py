"""Brokers: registration, heartbeats, fencing, controlled shutdown, unregistration (Kafka's
`ClusterControlManager` and its neighbours).

A broker's epoch is the offset of its registration record. A registration fences the broker; its
heartbeats unfence it once it has read its own registration. A broker that comes back under another
incarnation first loses its leaderships, as if it had been fenced, so a restart of a lone replica
raises the leader epoch twice: leader gone, leader back.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.broker_heartbeat_manager import BrokerControlState
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.leader_updates import has_leaderships, in_isr_or_elr, leader_and_isr_updates, partitions
from kmirror.metadata.features import KRAFT_VERSION, MV_CORDONED_DIRECTORIES, MV_DIRECTORY_ASSIGNMENT
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import BrokerRegistration, VersionRange, register_broker_record_version
from kmirror.wire.messages import register_broker_record, register_controller_record
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kmirror.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kmirror.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from kmirror.wire.messages.unregister_broker import UnregisterBrokerResponse
from kmirror.wire.messages.unregister_broker_record import UnregisterBrokerRecord

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


class ClusterControlManager:
    """Decides about brokers. All its state beyond the image is in `state.heartbeats`."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    # ---- registration

    def register_broker(self, request: BrokerRegistrationRequest) -> ControllerResult[BrokerRegistrationResponse]:
        """Writes a RegisterBrokerRecord at the next offset, after the records by which the old
        incarnation loses its partitions."""
        self._check_cluster_id(request.cluster_id)
        existing = self._state.image.cluster.broker(request.broker_id)
        same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
        if existing is not None and not same_incarnation:
            self._check_not_alive(existing)
        self._check_registration(request)
        records: list[ApiMessageAndVersion] = []
        if existing is not None and not same_incarnation:
            records += self._shutdown_records(existing, clean=request.previous_broker_epoch == existing.epoch)
        epoch = existing.epoch if existing is not None and same_incarnation else self._state.log_end_offset
        record = self._register_record(request, epoch, existing if same_incarnation else None)
        records.insert(0, ApiMessageAndVersion(record, register_broker_record_version(self._state.metadata_version)))
        self._state.heartbeats.register(request.broker_id, epoch, fenced=record.fenced)
        if not record.fenced:
            self._state.heartbeats.grant_session(request.broker_id, self._state.clock.monotonic_ms())
        return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=epoch))

    def _check_cluster_id(self, cluster_id: str) -> None:
        if cluster_id != self._state.config.cluster_id:
            raise ApiException(
                Errors.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {self._state.config.cluster_id}, but got cluster ID {cluster_id}"
            )

    def _check_not_alive(self, existing: BrokerRegistration) -> None:
        now = self._state.clock.monotonic_ms()
        if self._state.heartbeats.has_valid_session(existing.id, existing.epoch, now) and not (
            existing.fenced or existing.in_controlled_shutdown
        ):
            raise ApiException(
                Errors.DUPLICATE_BROKER_REGISTRATION,
                "Another broker is registered with that broker id. If the broker was recently restarted this should self-resolve once "
                "the heartbeat manager expires the broker's session.",
            )

    def _check_registration(self, request: BrokerRegistrationRequest) -> None:
        if self._state.metadata_version >= MV_DIRECTORY_ASSIGNMENT:
            if not request.log_dirs:
                raise ApiException(Errors.INVALID_REGISTRATION, "No directories specified in request")
            if len(set(request.log_dirs)) != len(request.log_dirs):
                raise ApiException(Errors.INVALID_REGISTRATION, "Duplicate directory ID in request")
            for broker in self._state.image.cluster.brokers.values():
                for directory in request.log_dirs:
                    if broker.id != request.broker_id and directory in broker.directories:
                        raise ApiException(
                            Errors.INVALID_REGISTRATION, f"Broker {broker.id} is already registered with directory {directory}"
                        )
        ranges = {f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in request.features}
        for name, level in self._state.image.features.finalized_levels.items():
            supported = ranges.get(name, VersionRange(0, 0))
            if name != KRAFT_VERSION and level not in supported:
                raise ApiException(
                    Errors.UNSUPPORTED_VERSION,
                    f"Unable to register because the broker does not support finalized version {level} of {name}. "
                    f"The broker wants a version between {supported.min} and {supported.max}, inclusive.",
                )

    def _shutdown_records(self, existing: BrokerRegistration, *, clean: bool) -> list[ApiMessageAndVersion]:
        affected = partitions(self._state, in_isr_or_elr(existing.id))
        if clean or not self._state.elr_enabled:
            return leader_and_isr_updates(self._state, affected, broker_to_remove=existing.id)
        return leader_and_isr_updates(self._state, affected, unclean_shutdown_broker=existing.id)

    def _register_record(
        self, request: BrokerRegistrationRequest, epoch: int, existing: BrokerRegistration | None
    ) -> register_broker_record.RegisterBrokerRecord:
        return register_broker_record.RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                register_broker_record.BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ],
            features=[
                register_broker_record.BrokerFeature(
                    name=f.name, min_supported_version=f.min_supported_version, max_supported_version=f.max_supported_version
                )
                for f in request.features
            ],
            rack=request.rack,
            fenced=existing is None or existing.fenced,
            in_controlled_shutdown=existing is not None and existing.in_controlled_shutdown,
            log_dirs=list(request.log_dirs) if self._state.metadata_version >= MV_DIRECTORY_ASSIGNMENT else [],
        )

    def register_controller(self, request: ControllerRegistrationRequest) -> ControllerResult[ControllerRegistrationResponse]:
        record = register_controller_record.RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=[
                register_controller_record.ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ],
            features=[
                register_controller_record.ControllerFeature(
                    name=f.name, min_supported_version=f.min_supported_version, max_supported_version=f.max_supported_version
                )
                for f in request.features
            ],
        )
        return ControllerResult([ApiMessageAndVersion(record, 0)], ControllerRegistrationResponse(error_message=None))

    # ---- heartbeats

    def check_broker_epoch(self, broker_id: int, broker_epoch: int) -> BrokerRegistration:
        """Returns the registration; raises STALE_BROKER_EPOCH unless it has that epoch."""
        registration = self._state.image.cluster.broker(broker_id)
        if registration is None:
            raise ApiException(Errors.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
        if registration.epoch != broker_epoch:
            text = f"Expected broker epoch {registration.epoch}, but got broker epoch {broker_epoch}"
            raise ApiException(Errors.STALE_BROKER_EPOCH, text)
        return registration

    def heartbeat(self, request: BrokerHeartbeatRequest) -> ControllerResult[BrokerHeartbeatResponse]:
        """Decides on the broker's next state, and on the changes to its partitions."""
        if self._state.image.cluster.broker(request.broker_id) is None:
            raise ApiException(Errors.STALE_BROKER_EPOCH, f"Receive a heartbeat from broker {request.broker_id} before registration")
        registration = self.check_broker_epoch(request.broker_id, request.broker_epoch)
        heartbeats = self._state.heartbeats
        if request.broker_id not in heartbeats.brokers:
            heartbeats.register(request.broker_id, registration.epoch, fenced=registration.fenced)
        current = heartbeats.current_state(request.broker_id)
        following = heartbeats.next_state(
            request.broker_id,
            want_fence=request.want_fence,
            want_shut_down=request.want_shut_down,
            metadata_offset=request.current_metadata_offset,
            registration_offset=registration.epoch,
            has_leaderships=lambda: has_leaderships(self._state, request.broker_id),
        )
        records = self._transition_records(registration, current, following) + self._directory_records(registration, request)
        now = self._state.clock.monotonic_ms()
        heartbeats.touch(request.broker_id, fenced=following.fenced, metadata_offset=request.current_metadata_offset, now_ms=now)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            offset = self._state.log_end_offset + len(records) - 1 if records else -1
            heartbeats.maintain_controlled_shutdown(request.broker_id, max(offset, 0))
        response = BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= registration.epoch,
            is_fenced=following.fenced,
            should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
        )
        return ControllerResult(records, response)

    def _transition_records(
        self, registration: BrokerRegistration, current: BrokerControlState, following: BrokerControlState
    ) -> list[ApiMessageAndVersion]:
        if following is current:
            return []
        if following is BrokerControlState.UNFENCED:
            return self._unfence(registration)
        if following is BrokerControlState.CONTROLLED_SHUTDOWN:
            return self._enter_controlled_shutdown(registration)
        return [] if registration.fenced else self.fence(registration)

    def _unfence(self, registration: BrokerRegistration) -> list[ApiMessageAndVersion]:
        leaderless = partitions(self._state, lambda partition: not partition.has_leader and registration.id in partition.replicas)
        change = self._change_record(registration, fenced=UNFENCE)
        return [change, *leader_and_isr_updates(self._state, leaderless, broker_to_add=registration.id)]

    def fence(self, registration: BrokerRegistration) -> list[ApiMessageAndVersion]:
        affected = partitions(self._state, lambda partition: registration.id in partition.isr)
        return [
            *leader_and_isr_updates(self._state, affected, broker_to_remove=registration.id),
            self._change_record(registration, fenced=FENCE),
        ]

    def _enter_controlled_shutdown(self, registration: BrokerRegistration) -> list[ApiMessageAndVersion]:
        affected = partitions(self._state, lambda partition: registration.id in partition.isr)
        updates = leader_and_isr_updates(self._state, affected, broker_to_remove=registration.id)
        if registration.in_controlled_shutdown:
            return updates
        record = BrokerRegistrationChangeRecord(
            broker_id=registration.id, broker_epoch=registration.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
        )
        return [ApiMessageAndVersion(record, 1), *updates]

    def _directory_records(self, registration: BrokerRegistration, request: BrokerHeartbeatRequest) -> list[ApiMessageAndVersion]:
        records: list[ApiMessageAndVersion] = []
        offline = [directory for directory in registration.directories if directory in request.offline_log_dirs]
        if offline:
            affected = partitions(self._state, lambda p: registration.id in p.isr and p.directory(registration.id) in offline)
            records += leader_and_isr_updates(self._state, affected, broker_to_remove=registration.id)
            online = [directory for directory in registration.directories if directory not in offline]
            change = BrokerRegistrationChangeRecord(broker_id=registration.id, broker_epoch=registration.epoch, log_dirs=online)
            records.append(ApiMessageAndVersion(change, 2))
        cordoned = request.cordoned_log_dirs
        known = registration.cordoned_directories
        changed = cordoned is not None and (known is None or set(cordoned) != set(known))
        if cordoned is not None and changed and self._state.metadata_version >= MV_CORDONED_DIRECTORIES:
            change = BrokerRegistrationChangeRecord(
                broker_id=registration.id, broker_epoch=registration.epoch, cordoned_log_dirs=list(cordoned)
            )
            records.append(ApiMessageAndVersion(change, 3))
        return records

    def _change_record(self, registration: BrokerRegistration, *, fenced: int) -> ApiMessageAndVersion:
        record = BrokerRegistrationChangeRecord(broker_id=registration.id, broker_epoch=registration.epoch, fenced=fenced)
        return ApiMessageAndVersion(record, 0)

    def fence_stale_broker(self) -> ControllerResult[int]:
        """Fences the broker whose session ran out first; the response is its id, or -1 if there is
        none."""
        for broker_id in self._state.heartbeats.stale_brokers(self._state.clock.monotonic_ms()):
            registration = self._state.image.cluster.broker(broker_id)
            self._state.heartbeats.brokers[broker_id].fenced = True
            if registration is not None and not registration.fenced:
                return ControllerResult(self.fence(registration), broker_id)
        return ControllerResult([], -1)

    # ---- unregistration

    def unregister_broker(self, broker_id: int) -> ControllerResult[UnregisterBrokerResponse]:
        registration = self._state.image.cluster.broker(broker_id)
        if registration is None:
            raise ApiException(Errors.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        affected = partitions(self._state, in_isr_or_elr(broker_id))
        records = leader_and_isr_updates(self._state, affected, broker_to_remove=broker_id)
        record = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=registration.epoch)
        records.append(ApiMessageAndVersion(record, 0))
        self._state.heartbeats.remove(broker_id)
        return ControllerResult(records, UnregisterBrokerResponse(error_message=None))
