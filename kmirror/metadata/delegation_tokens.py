"""Computations on delegation tokens (KIP-48): every node that knows `delegation.token.secret.key`
can compute a token's HMAC."""

from __future__ import annotations

import base64
import hmac

from kmirror.metadata.image import DelegationToken


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Returns the HMAC-SHA512 of the token id."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(token_hmac: bytes) -> str:
    """Returns the password that a client logs in with."""
    return base64.b64encode(token_hmac).decode()


def is_party_of(token: DelegationToken, principal: str) -> bool:
    """Whether a principal is the token's owner or requester, or among its renewers."""
    return principal in (token.owner, token.requester, *token.renewers)
