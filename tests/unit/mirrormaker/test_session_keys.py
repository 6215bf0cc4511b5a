"""Session keys of a Connect group, and the signatures that workers make with them (KIP-507)."""

from __future__ import annotations

import json

import pytest

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.herder.cluster_config_state import ClusterConfigState, session_key_record
from kmirror.mirrormaker.herder.herder import HerderError
from kmirror.mirrormaker.herder.request_signatures import RequestSignature, UnreadableSignatureError, decoded_base64, request_signature
from kmirror.mirrormaker.herder.session_keys import SessionConfig, SessionKey
from kmirror.runtime.system_ports import SeededRandom

HOUR_MS = 3_600_000
KEY = SessionKey(b"k" * 32, "HmacSHA256", 1_000)
BODY = b'[{"a":"b"}]'


def signed(session: SessionConfig, key: SessionKey, body: bytes = BODY) -> RequestSignature | None:
    return request_signature(body, {name.lower(): value for name, value in session.headers(key, body).items()})


def refusal(session: SessionConfig, signature: RequestSignature | None, key: SessionKey | None = KEY) -> tuple[int, str]:
    with pytest.raises(HerderError) as refused:
        session.require_signed(signature, key)
    return refused.value.status, str(refused.value)


def test_the_record_is_that_of_connect_and_is_read_back() -> None:
    name, value = session_key_record(KEY)
    assert name == b"session-key"
    assert json.loads(value or b"") == {"key": "a2tr" * 10 + "a2s=", "algorithm": "HmacSHA256", "creation-timestamp": 1_000}
    state = ClusterConfigState()
    state.handle_record(name, value)
    assert state.session_key == KEY
    for damaged in (
        None,
        b"[]",
        b'{"key":"?","algorithm":"HmacSHA256","creation-timestamp":1}',
        b'{"key":"a2tr","algorithm":"X","creation-timestamp":1}',
    ):
        state.handle_record(name, damaged)
        assert state.session_key == KEY, "what is no key changes nothing"


def test_a_key_is_replaced_when_it_is_old_or_not_what_is_configured() -> None:
    session = SessionConfig({})
    assert session.is_due(None, 0) and session.is_due(KEY, 1_000 + HOUR_MS) and not session.is_due(KEY, 999 + HOUR_MS)
    assert not SessionConfig({"inter.worker.key.ttl.ms": "0"}).is_due(KEY, 2**60)
    assert SessionConfig({"inter.worker.key.size": "128"}).is_due(KEY, 0)
    assert SessionConfig({"inter.worker.key.generation.algorithm": "HmacSHA512"}).is_due(KEY, 0)
    made = session.new_key(SeededRandom(1), 7)
    assert (len(made.key), made.algorithm, made.created_ms) == (32, "HmacSHA256", 7) and not session.is_due(made, 8)


def test_what_nobody_of_the_group_has_signed_is_refused_in_connects_words() -> None:
    session = SessionConfig({})
    session.require_signed(signed(session, KEY), KEY)
    session.require_signed(signed(session, KEY, b""), KEY)
    assert refusal(session, None) == (400, "Internal request missing required signature")
    other = SessionConfig({"inter.worker.signature.algorithm": "HmacSHA512", "inter.worker.verification.algorithms": "HmacSHA512"})
    status, message = refusal(session, signed(other, KEY))
    assert status == 400 and "does not support the 'HmacSHA512' key signing algorithm" in message and ": [HmacSHA256]. Check" in message
    assert refusal(session, signed(session, KEY), None)[0] == 503
    assert refusal(session, signed(session, KEY._replace(key=b"other"))) == (403, "Internal request contained invalid signature.")
    taken = signed(session, KEY)
    assert taken is not None and refusal(session, RequestSignature(b"another body", taken.algorithm, taken.signature))[0] == 403


@pytest.mark.parametrize(
    ("text", "found"),
    [("YQ==", b"a"), ("YQ", b"a"), ("YWI=", b"ab"), ("YWI", b"ab"), ("", b""), ("YR==", b"a")],
)  # fmt: skip
def test_base64_is_read_as_java_reads_it(text: str, found: bytes) -> None:
    assert decoded_base64(text) == found


@pytest.mark.parametrize(
    ("text", "said"),
    [("YQ=", "wrong 4-byte ending unit"), ("Y", "at least have 2 bytes"), ("YWJjZ", "enough valid bits"), ("YQ==YQ", "incorrect ending byte at 4"),
     ("YW-j", "Illegal base64 character 2d"), ("====", "wrong 4-byte ending unit")],
)  # fmt: skip
def test_base64_that_java_refuses(text: str, said: str) -> None:
    with pytest.raises(UnreadableSignatureError, match=said):
        decoded_base64(text)


def test_a_signature_algorithm_that_nobody_would_take_is_refused() -> None:
    with pytest.raises(ConfigError, match="Signature algorithm must be present in inter.worker.verification.algorithms list"):
        SessionConfig({"inter.worker.signature.algorithm": "HmacSHA512"})
    with pytest.raises(ConfigError, match="Key length must be at least 40 bits"):
        SessionConfig({"inter.worker.key.size": "39"})
