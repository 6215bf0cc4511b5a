"""`--initial-controllers` of the storage tool: `ID@HOST:PORT:DIRECTORY_ID` for each initial voter
of a dynamic quorum.

Error texts are Kafka's (`DynamicVoter.parse`). kmirror's quorum has one voter, so a list of several
is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid


class DynamicVoterError(KmirrorError):
    """The argument of --initial-controllers is malformed, or describes a quorum that kmirror does
    not run."""


class DynamicVoter(NamedTuple):
    """A voter, its address, and the directory of its metadata log."""

    node_id: int
    host: str
    port: int
    directory_id: Uuid


def parse_initial_controllers(text: str) -> DynamicVoter:
    """Returns the one voter of the list; raises DynamicVoterError for anything else."""
    voters = [parse_voter(entry.strip()) for entry in text.split(",") if entry.strip()]
    if not voters:
        raise DynamicVoterError("No voters given.")
    seen: set[int] = set()
    for voter in voters:
        if voter.node_id in seen:
            raise DynamicVoterError(f"Node id {voter.node_id} was specified more than once.")
        seen.add(voter.node_id)
    if len(voters) > 1:
        raise DynamicVoterError(f"kmirror runs a controller quorum of one voter; --initial-controllers names {len(voters)}.")
    return voters[0]


def parse_voter(text: str) -> DynamicVoter:
    node_id, separator, rest = text.partition("@")
    if not separator:
        raise DynamicVoterError("No @ found in dynamic voter string.")
    if not node_id:
        raise DynamicVoterError("Invalid @ at beginning of dynamic voter string.")
    number = _number(node_id, "node id")
    if number < 0:
        raise DynamicVoterError(f"Invalid negative node id {number} in dynamic voter string.")
    if not rest:
        raise DynamicVoterError("No hostname found after node id.")
    host, rest = _host(rest)
    if not rest.startswith(":"):
        raise DynamicVoterError("Port section must start with a colon.")
    port_text, separator, directory = rest[1:].partition(":")
    if not separator:
        raise DynamicVoterError("No colon following port could be found.")
    port = _number(port_text, "port")
    if not 0 <= port <= 65535:
        raise DynamicVoterError(f"Invalid port {port} in dynamic voter string.")
    try:
        directory_id = Uuid.from_string(directory)
    except ValueError as error:
        raise DynamicVoterError("Failed to parse directory ID in dynamic voter string.") from error
    return DynamicVoter(number, host, port, directory_id)


def _host(text: str) -> tuple[str, str]:
    """Returns (the host, without an IPv6 address's brackets; the text after it)."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket:
            raise DynamicVoterError("Hostname began with left bracket, but no right bracket was found.")
        return host, rest
    host, colon, rest = text.partition(":")
    if not colon:
        raise DynamicVoterError("No colon following hostname could be found.")
    return host, f":{rest}"


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise DynamicVoterError(f"Failed to parse {what} in dynamic voter string.") from error
