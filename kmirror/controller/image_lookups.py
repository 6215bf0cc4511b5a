"""Finds ACL rules by their content, and delegation tokens by their HMAC; requests name them so, but
the image has other keys.

The indexes follow the image's changes, so that a request does not walk through all rules or tokens.
"""

from __future__ import annotations

from kmirror.common.uuid import Uuid
from kmirror.metadata.delegation_tokens import token_hmac
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import DelegationToken, MetadataImage, StandardAcl
from kmirror.metadata.loader import LoaderManifest


class ImageLookups:
    """A `MetadataPublisher` of the controller's own loader. With `secret_key` None there are no
    tokens."""

    name = "ImageLookups"

    def __init__(self, secret_key: str | None) -> None:
        self._secret_key = secret_key
        self._acl_ids: dict[StandardAcl, dict[Uuid, None]] = {}
        self._token_ids: dict[bytes, str] = {}
        self._hmacs: dict[str, bytes] = {}

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest | None) -> None:
        for acl_id, acl in delta.changed_acls.items():
            before = delta.image.acls.get(acl_id)
            if before is not None:
                self._remove_acl(acl_id, before)
            if acl is not None:
                self._acl_ids.setdefault(acl, {})[acl_id] = None
        if self._secret_key is not None:
            for token_id, token in delta.changed_tokens.items():
                self._update_token(self._secret_key, token_id, token)

    def _remove_acl(self, acl_id: Uuid, acl: StandardAcl) -> None:
        ids = self._acl_ids[acl]
        del ids[acl_id]
        if not ids:
            del self._acl_ids[acl]

    def _update_token(self, secret_key: str, token_id: str, token: DelegationToken | None) -> None:
        if token is None:
            hmac = self._hmacs.pop(token_id, None)
            if hmac is not None:
                del self._token_ids[hmac]
        elif token_id not in self._hmacs:
            hmac = self._hmacs[token_id] = token_hmac(secret_key, token_id)
            self._token_ids[hmac] = token_id

    def has_acl(self, acl: StandardAcl) -> bool:
        return acl in self._acl_ids

    def token_id(self, hmac: bytes) -> str | None:
        """Returns the id of the token with this HMAC. An HMAC has 512 bits, so the timing of a hash
        look-up does not help to guess a token."""
        return self._token_ids.get(hmac)
