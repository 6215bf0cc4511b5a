"""`kafka-delegation-tokens`: create, renew, expire and describe delegation tokens.

It has the options and output of Kafka's tool, and `--json`. A broker issues tokens only to clients
that logged in by SASL or with a certificate, and not with a token; so `--command-config` is
required. Whoever has a token's HMAC has the token: the tool prints it, and takes it with `--hmac`
to renew or expire the token. Without `--owner-principal`, Kafka 4.3's tool asks for the tokens of
nobody and shows none. This tool does what the help of both says, and lists all tokens that the
caller may see.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kmirror.cli.tool_options import ToolParser, UsageError, print_json, refuse, require, run_tool
from kmirror.common.acl import parse_kafka_principal
from kmirror.common.errors import KmirrorError
from kmirror.common.kafka_principal import KafkaPrincipal

if TYPE_CHECKING:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.admin.tokens import DelegationToken

DESCRIPTION = "This tool helps to create, renew, expire, or describe delegation tokens."
ACTIONS = ("create", "renew", "expire", "describe")
REQUIRED = {"create": ("max-life-time-period",), "renew": ("hmac", "renew-time-period"), "expire": ("hmac", "expiry-time-period")}
REFUSED = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renew", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period"),
}
ROW = ("%-15s", "%-30s", "%-15s", "%-15s", "%-25s", "%-15s", "%-15s", "%-15s")
HEADER = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-delegation-tokens", DESCRIPTION)
    parser.value("bootstrap-server", "", "REQUIRED: the brokers to connect to, as host:port,host:port.")
    parser.value("command-config", "", "REQUIRED: a file with settings of the admin client, e.g. how to log in.")
    parser.flag("create", "Create a token.")
    parser.flag("renew", "Renew a token, so that it expires later.")
    parser.flag("expire", "Let a token expire sooner, or at once.")
    parser.flag("describe", "List tokens: the caller's, and those of others that it may describe.")
    parser.value("owner-principal", "", "The owner of the new token, or of the tokens to list, as type:name.", many=True)
    parser.value("renewer-principal", "", "A principal that may renew the token besides its owner, as type:name.", many=True)
    parser.value(
        "max-life-time-period",
        "",
        "The longest time in ms that the token can live; -1 is the broker's delegation.token.max.lifetime.ms.",
        kind="Long",
    )
    parser.value(
        "renew-time-period",
        "",
        "The time in ms until the renewed token expires; -1 is the broker's delegation.token.expiry.time.ms.",
        kind="Long",
    )
    parser.value("expiry-time-period", "", "The time in ms until the token expires; -1 lets it expire at once.", kind="Long")
    parser.value("hmac", "", "The HMAC of the token.")
    parser.json_flag()
    return parser


def check(options: argparse.Namespace) -> None:
    actions = [action for action in ACTIONS if action in options.given]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --create, --renew, --expire or --describe")
    require(options, "bootstrap-server", "command-config", *REQUIRED.get(actions[0], ()))
    refuse(options, actions[0], REFUSED[actions[0]])


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.tool_client import with_admin

    action = next(action for action in ACTIONS if action in options.given)
    work = {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}[action]
    with_admin(options.bootstrap_server, options.command_config, lambda admin: work(admin, options))
    return 0


async def _create(admin: AdminClient, options: argparse.Namespace) -> None:
    renewers, owners = _principals(options.renewer_principal), _principals(options.owner_principal)
    lifetime_ms = options.max_life_time_period
    _say(options, f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{lifetime_ms}\n")
    token = await admin.create_delegation_token(owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=lifetime_ms)
    _say(options, f"Created delegation token with tokenId : {token.token_id}\n")
    _show(options, [token])


async def _renew(admin: AdminClient, options: argparse.Namespace) -> None:
    period_ms = options.renew_time_period
    _say(options, f"Calling renew token operation with hmac :{options.hmac} , renew-time-period :{period_ms}\n")
    expiry_ms = await admin.renew_delegation_token(_decoded(options.hmac), renew_period_ms=period_ms)
    _say(options, f"Completed renew operation. New expiry date : {_date(expiry_ms)}")
    _print_expiry(options, expiry_ms)


async def _expire(admin: AdminClient, options: argparse.Namespace) -> None:
    period_ms = options.expiry_time_period
    _say(options, f"Calling expire token operation with hmac :{options.hmac} , expire-time-period :{period_ms}\n")
    expiry_ms = await admin.expire_delegation_token(_decoded(options.hmac), expiry_time_period_ms=period_ms)
    _say(options, f"Completed expire operation. New expiry date : {_date(expiry_ms)}")
    _print_expiry(options, expiry_ms)


async def _describe(admin: AdminClient, options: argparse.Namespace) -> None:
    owners = _principals(options.owner_principal)
    whose = f"owners: {_listed(owners)}" if owners else "current user."
    _say(options, f"Calling describe token operation for {whose}\n")
    tokens = await admin.describe_delegation_token(owners or None)
    _say(options, f"Total number of tokens : {len(tokens)}")
    _show(options, tokens)


def _principals(texts: Sequence[str]) -> list[KafkaPrincipal]:
    return [parse_kafka_principal(text.strip()) for text in texts]


def _listed(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _decoded(hmac: str) -> bytes:
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error as error:
        raise KmirrorError(f"--hmac is not base64: {error}") from error


def _date(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%dT%H:%M")


def _say(options: argparse.Namespace, text: str) -> None:
    if not options.json:
        sys.stdout.write(text)


def _print_expiry(options: argparse.Namespace, expiry_ms: int) -> None:
    if options.json:
        print_json({"expiryTimestamp": expiry_ms})


def _show(options: argparse.Namespace, tokens: Sequence[DelegationToken]) -> None:
    if options.json:
        print_json([_as_json(token) for token in tokens])
        return
    rows = [HEADER]
    for token in tokens:
        dates = (_date(token.issue_timestamp), _date(token.expiry_timestamp), _date(token.max_timestamp))
        principals = (str(token.owner), str(token.token_requester), _listed(token.renewers))
        rows.append((token.token_id, base64.b64encode(token.hmac).decode(), *principals, *dates))
    for row in rows:
        sys.stdout.write(f"\n{' '.join(layout % cell for layout, cell in zip(ROW, row, strict=True))}\n")


def _as_json(token: DelegationToken) -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": str(token.owner),
        "requester": str(token.token_requester),
        "renewers": [str(renewer) for renewer in token.renewers],
        "issueTimestamp": token.issue_timestamp,
        "expiryTimestamp": token.expiry_timestamp,
        "maxTimestamp": token.max_timestamp,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
