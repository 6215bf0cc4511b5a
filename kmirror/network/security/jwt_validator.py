"""Signed bearer tokens, checked against a set of public keys (Kafka's `BrokerJwtValidator`).

`sasl.oauthbearer.jwks.endpoint.url` names the JSON Web Key Set (`jwks`). A token must be signed
with RS256/384/512, PS256/384/512 or ES256/384/512. It must carry an expiry that has not passed and
an issue time. If audiences or an issuer are configured, it must be for one of the audiences and
from that issuer. Needs the package `cryptography` (`kmirror[security]`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kmirror.common.errors import ConfigError
from kmirror.network.security.jwks import Jwks
from kmirror.network.security.oauth_bearer_token import IllegalTokenError, JsonWebToken, OAuthBearerToken, decode_base64url

_CURVES = {"P-256": ("SECP256R1", 32), "P-384": ("SECP384R1", 48), "P-521": ("SECP521R1", 66)}
_HASHES = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}


class JwtValidator:
    """A `Validator`. ConfigError if the package is missing."""

    def __init__(
        self,
        *,
        jwks: Jwks,
        expected_audience: Sequence[str],
        expected_issuer: str | None,
        clock_skew_seconds: int,
        scope_claim: str,
        sub_claim: str,
    ) -> None:
        try:
            import cryptography
        except ImportError as error:
            raise ConfigError("Signed OAUTHBEARER tokens need the package cryptography: pip install 'kmirror[security]'") from error
        del cryptography
        self._jwks = jwks
        self._audience = set(expected_audience)
        self._issuer = expected_issuer
        self._skew_ms = clock_skew_seconds * 1000
        self._scope_claim = scope_claim
        self._sub_claim = sub_claim

    def __call__(self, compact: str, now_ms: int) -> OAuthBearerToken:
        token = JsonWebToken.parse(compact)
        self._verify(token, now_ms)
        expires, issued = token.claim("exp", "Number"), token.claim("iat", "Number")
        if expires is None or issued is None:
            raise IllegalTokenError("No Expiration Time (exp) or Issued At (iat) claim present.")
        if now_ms - self._skew_ms >= expires * 1000:
            raise IllegalTokenError("The JWT is no longer valid: its Expiration Time has passed")
        not_before = token.claim("nbf", "Number")
        if not_before is not None and now_ms + self._skew_ms < not_before * 1000:
            raise IllegalTokenError("The JWT is not yet valid")
        if self._issuer is not None and token.claims.get("iss") != self._issuer:
            raise IllegalTokenError(f"Issuer (iss) claim value ({token.claims.get('iss')}) doesn't match expected value of {self._issuer}")
        self._check_audience(token.claims.get("aud"))
        subject = _stripped(self._sub_claim, token.claim(self._sub_claim, "String"))
        return OAuthBearerToken(subject, round(expires * 1000), self._scopes(token.claims.get(self._scope_claim)))

    def _scopes(self, claimed: object) -> tuple[str, ...]:
        """Returns the scopes of a string or a list; a claim of another type has none.

        IllegalTokenError for a blank scope, and for one that is there twice.
        """
        scopes: list[str] = []
        for entry in [claimed] if isinstance(claimed, str) else claimed if isinstance(claimed, list) else []:
            scope = _stripped(self._scope_claim, entry)
            if scope in scopes:
                raise IllegalTokenError(f"{self._scope_claim} value must not contain duplicates - {scope} already present")
            scopes.append(scope)
        return tuple(scopes)

    def _check_audience(self, audience: object) -> None:
        named = {str(entry) for entry in audience} if isinstance(audience, list) else {str(audience)} if audience else set()
        if self._audience and not self._audience & named:
            raise IllegalTokenError(f"Audience (aud) claim {sorted(named)} doesn't contain an acceptable identifier")

    def _verify(self, token: JsonWebToken, now_ms: int) -> None:
        algorithm, key_id = str(token.header.get("alg", "")), token.header.get("kid")
        if algorithm[:2] not in ("RS", "PS", "ES") or algorithm[2:] not in _HASHES:
            raise IllegalTokenError(f"The algorithm {algorithm} is not acceptable")
        key = self._jwks.find(key_id, now_ms)
        if key is None:
            raise IllegalTokenError(f"Unable to find a suitable verification key for the kid {key_id}")
        if not _is_signed_by(key, algorithm, token.signature, token.signed):
            raise IllegalTokenError("The JWS signature was invalid")


def _stripped(claim: str, value: object) -> str:
    """Returns a claim's value without the blanks around it, as Kafka's `ClaimValidationUtils` does."""
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        raise IllegalTokenError(f"{claim} value must be non-null, non-empty, and non-whitespace")
    return text


def _is_signed_by(key: dict[str, Any], algorithm: str, signature: bytes, signed: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    digest: hashes.HashAlgorithm = getattr(hashes, _HASHES[algorithm[2:]])()
    try:
        if algorithm.startswith("ES"):
            curve, size = _CURVES[key["crv"]]
            numbers = ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), getattr(ec, curve)())
            r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
            numbers.public_key().verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(digest))
            return True
        public = rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key()
        scheme: padding.AsymmetricPadding = padding.PKCS1v15()
        if algorithm.startswith("PS"):
            scheme = padding.PSS(padding.MGF1(digest), digest.digest_size)
        public.verify(signature, signed, scheme, digest)
    except (InvalidSignature, KeyError, ValueError):
        return False
    return True


def _number(text: str) -> int:
    return int.from_bytes(decode_base64url(text), "big")
