"""Users' SCRAM credentials (Kafka's `ScramControlManager`): AlterUserScramCredentials to records.

A client sends the salted password, never the password; the records hold the stored key and the
server key (RFC 5802). A request may alter a user once; if it does so twice, both fail. An error for
one user does not affect the others.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.network.security.scram_mechanism import MAX_ITERATIONS, ScramMechanism
from kmirror.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kmirror.wire.messages.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

_TWICE = "A user credential cannot be altered twice in the same request"


class ScramControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_credentials(self, request: AlterUserScramCredentialsRequest) -> ControllerResult[AlterUserScramCredentialsResponse]:
        records: dict[str, ApiMessageAndVersion] = {}
        errors: dict[str, ApiException] = {}
        changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        for change in changes:
            if change.name in errors:
                continue
            if records.pop(change.name, None) is not None:
                errors[change.name] = ApiException(Errors.DUPLICATE_RESOURCE, _TWICE)
                continue
            try:
                records[change.name] = self._record(change)
            except ApiException as error:
                errors[change.name] = error
        for name in [change.name for change in request.upsertions if change.name in records and not change.salted_password]:
            del records[name]
            errors[name] = ApiException(Errors.UNKNOWN_SERVER_ERROR, "An empty salted password is no key")
        results = [AlterUserScramCredentialsResult(user, Errors.NONE, None) for user in records]
        results += [AlterUserScramCredentialsResult(user, error.error, error.told_message) for user, error in errors.items()]
        return ControllerResult(list(records.values()), AlterUserScramCredentialsResponse(results=results))

    def _record(self, change: ScramCredentialDeletion | ScramCredentialUpsertion) -> ApiMessageAndVersion:
        if not change.name:
            raise ApiException(Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        mechanism = ScramMechanism.for_type(change.mechanism)
        if mechanism is None:
            raise ApiException(Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if isinstance(change, ScramCredentialDeletion):
            return self._deletion(change)
        return self._upsertion(change, mechanism)

    def _deletion(self, change: ScramCredentialDeletion) -> ApiMessageAndVersion:
        if (change.mechanism, change.name) not in self._state.image.scram:
            raise ApiException(Errors.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return ApiMessageAndVersion(RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism), 0)

    def _upsertion(self, change: ScramCredentialUpsertion, mechanism: ScramMechanism) -> ApiMessageAndVersion:
        if change.iterations < mechanism.min_iterations:
            raise ApiException(Errors.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MAX_ITERATIONS:
            raise ApiException(Errors.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        credential = mechanism.credential_from_salted(bytes(change.salt), bytes(change.salted_password), change.iterations)
        record = UserScramCredentialRecord(name=change.name, mechanism=change.mechanism, **credential._asdict())
        return ApiMessageAndVersion(record, 0)
