"""`kafka-configs` on users, clients and addresses: client quotas and SCRAM credentials."""

from __future__ import annotations

import re
from itertools import zip_longest

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.quotas import CLIENT_ID, IP, USER, ClientQuotaEntity, ClientQuotaFilterComponent, MatchType
from kmirror.admin.scram import DEFAULT_ITERATIONS, ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion
from kmirror.cli.java_names import java_exception
from kmirror.cli.tool_options import print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError

MIN_ITERATIONS = 4_096
ENTITY_TYPES = {"users": USER, "clients": CLIENT_ID, "ips": IP}
SHOWN = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_QUOTAS = ("connection_creation_rate",)
MECHANISMS = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")


async def alter_user_or_client(admin: AdminClient, types: list[str], names: list[str], added: dict[str, str], deleted: list[str]) -> None:
    """Change quotas of a user, a client or both together, or the SCRAM credentials of a user."""
    scram_added = {key: value for key, value in added.items() if key in MECHANISMS}
    scram_deleted = [key for key in deleted if key in MECHANISMS]
    unknown_added = [key for key in added if key not in MECHANISMS and key not in CLIENT_QUOTAS]
    unknown_deleted = [key for key in deleted if key not in MECHANISMS and key not in CLIENT_QUOTAS]
    has_quotas = any(key in CLIENT_QUOTAS for key in (*added, *deleted))
    if "clients" in types:
        _refuse_others("Only quota configs can be {} for 'clients' using --bootstrap-server.", "added", [*unknown_added, *scram_added])
        _refuse_others(
            "Only quota configs can be {} for 'clients' using --bootstrap-server.", "deleted", [*unknown_deleted, *scram_deleted]
        )
    else:
        only = "Only quota and SCRAM credential configs can be {} for 'users' using --bootstrap-server."
        _refuse_others(only, "added", unknown_added)
        _refuse_others(only, "deleted", unknown_deleted)
        if scram_added or scram_deleted:
            if "" in names:
                raise KmirrorError(
                    "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server."
                )
            if has_quotas:
                raise KmirrorError(
                    "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
                )
    if has_quotas:
        await _alter_quotas(admin, types, names, added, deleted)
    else:
        await _alter_credentials(admin, names[0], scram_added, scram_deleted)


async def alter_ip(admin: AdminClient, types: list[str], names: list[str], added: dict[str, str], deleted: list[str]) -> None:
    unknown = [key for key in (*added, *deleted) if key not in IP_QUOTAS]
    if unknown:
        raise KmirrorError(
            f"Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: {','.join(unknown)}"
        )
    await _alter_quotas(admin, types, names, added, deleted)


def _refuse_others(text: str, verb: str, names: list[str]) -> None:
    if names:
        raise KmirrorError(
            f"{text.format(verb)} Unexpected config names: {'Set' if verb == 'added' else 'ArrayBuffer'}({', '.join(names)})"
        )


async def _alter_credentials(admin: AdminClient, user: str, added: dict[str, str], deleted: list[str]) -> None:
    alterations: list[UserScramCredentialUpsertion | UserScramCredentialDeletion] = [
        UserScramCredentialDeletion(user, MECHANISMS[name]) for name in deleted
    ]
    for name, text in added.items():
        match = CREDENTIAL.fullmatch(text)
        if match is None:
            raise KmirrorError(f"Invalid credential property {MECHANISMS[name].name}={text}")
        iterations = DEFAULT_ITERATIONS if match[1] in (None, "", "-1", "-") else int(match[1])
        if iterations < MIN_ITERATIONS:
            raise KmirrorError(f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {name}")
        alterations.append(UserScramCredentialUpsertion(user, MECHANISMS[name], match[2].encode(), iterations))
    for error in (await admin.alter_user_scram_credentials(alterations)).values():
        if error is not None:
            raise error


async def _alter_quotas(admin: AdminClient, types: list[str], names: list[str], added: dict[str, str], deleted: list[str]) -> None:
    existing = await admin.describe_client_quotas(_components(types, names), strict=True)
    known = next(iter(existing.values()), {})
    invalid = [key for key in deleted if key not in known]
    if invalid:
        raise KmirrorError(f"Invalid config(s): {','.join(invalid)}")
    changes: dict[str, float | None] = {}
    for key, text in added.items():
        try:
            changes[key] = float(text)
        except ValueError as error:
            raise KmirrorError(f"Cannot parse quota configuration value for {key}: {text}") from error
    changes |= dict.fromkeys(deleted)
    entity = ClientQuotaEntity.of({ENTITY_TYPES[kind]: name or None for kind, name in zip(types, names, strict=True)})
    await admin.alter_client_quotas(entity, changes)


def _components(types: list[str], names: list[str]) -> list[ClientQuotaFilterComponent]:
    """Returns filters: a name, the default (""), or any name for a type without one."""
    if len(names) > len(types):
        raise KmirrorError("More entity names specified than entity types")
    components = []
    for kind, name in zip_longest(types, names):
        match = MatchType.SPECIFIED if name is None else MatchType.EXACT if name else MatchType.DEFAULT
        components.append(ClientQuotaFilterComponent(ENTITY_TYPES[kind], match, name or None))
    return components


async def describe(admin: AdminClient, types: list[str], names: list[str], *, as_json: bool) -> None:
    """Print quotas and then, for users alone, SCRAM credentials."""
    quotas = await admin.describe_client_quotas(_components(types, names), strict=True)
    credentials: dict[str, list[tuple[ScramMechanism, int]] | ApiException] = {}
    if types == ["users"] and "" not in names:
        credentials = await admin.describe_user_scram_credentials(names)
    if as_json:
        print_json(
            {
                "quotas": [{"entity": dict(entity.entries), "configs": values} for entity, values in quotas.items()],
                "scramCredentials": {
                    user: [{"mechanism": mechanism.mechanism_name, "iterations": iterations} for mechanism, iterations in found]
                    for user, found in credentials.items()
                    if not isinstance(found, ApiException)
                },
            }
        )
        return
    for entity, values in quotas.items():
        entries = dict(entity.entries)
        shown = [
            f"{SHOWN[kind]} '{entries[kind]}'" if entries[kind] is not None else f"the default {SHOWN[kind]}"
            for kind in SHOWN
            if kind in entries
        ]
        print(f"Quota configs for {', '.join(shown)} are {', '.join(f'{key}={java_double(value)}' for key, value in values.items())}")
    for user, found in credentials.items():
        if isinstance(found, ApiException) and found.error is Errors.RESOURCE_NOT_FOUND:
            continue
        if isinstance(found, ApiException):
            print(f"Error retrieving SCRAM credential configs for user-principal '{user}': ExecutionException: {java_exception(found)}")
            continue
        text = ", ".join(f"{mechanism.mechanism_name}=iterations={iterations}" for mechanism, iterations in found)
        print(f"SCRAM credential configs for user-principal '{user}' are {text}")


def java_double(value: float) -> str:
    """Returns a double as Java prints it.

    It is plain from 0.001 to below ten million, otherwise it has an exponent (`1.048576E7`).
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    shortest = next(text for places in range(18) if float(text := f"{value:.{places}e}") == value)
    digits, _, exponent = shortest.partition("e")
    whole = digits if "." in digits else f"{digits}.0"
    return f"{whole}E{int(exponent)}"
