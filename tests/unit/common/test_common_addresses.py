"""host:port: what is written is read again."""

import pytest

from kmirror.common.addresses import address_text, parse_bootstrap_servers
from kmirror.common.errors import KmirrorError


@pytest.mark.parametrize(("host", "text"), [("a.example", "a.example:9092"), ("127.0.0.1", "127.0.0.1:9092"), ("::1", "[::1]:9092")])
def test_an_address_is_read_as_it_was_written(host: str, text: str) -> None:
    assert address_text(host, 9092) == text
    assert parse_bootstrap_servers(text) == [(host, 9092)]


@pytest.mark.parametrize("text", ["", "a", "a:", "a:b", "a:0", "a:65536", "a:1,", "a:1,b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(KmirrorError, match="is not host:port"):
        parse_bootstrap_servers(text)
