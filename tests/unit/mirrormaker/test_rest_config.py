"""`listeners` and what else a worker's file says of its REST interface."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.rest.cross_origin import CrossOrigin
from kmirror.mirrormaker.rest.response_headers import parse_header_rules
from kmirror.mirrormaker.rest.rest_config import Listener, RestServerConfig
from kmirror.mirrormaker.rest.rest_messages import RestRequest


def test_listeners_have_a_scheme_a_host_and_a_port() -> None:
    config = RestServerConfig({"listeners": "HTTP://:0, https://[::1]:8443,http://h-1.x:1"})
    assert config.listeners == [Listener("http", "", 0), Listener("https", "::1", 8443), Listener("http", "h-1.x", 1)]
    assert RestServerConfig({}).listeners == [Listener("http", "", 8083)]


@pytest.mark.parametrize(
    ("listeners", "message"),
    [
        ("", "at least one URL is expected"),
        ("http://a:1,,http://b:2", "Empty URL found when parsing listeners list."),
        ("a:1", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("ftp://a:1", 'Listener protocol must be either "http" or "https".'),
        ("http://a:65536", "a port is a number from 0 to 65535"),
    ],
)
def test_wrong_listeners_are_refused(listeners: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        RestServerConfig({"listeners": listeners})
    assert message in str(refusal.value)


def test_admin_listeners_are_the_others_or_their_own_or_none() -> None:
    assert RestServerConfig({}).admin_listeners is None
    assert RestServerConfig({"admin.listeners": ""}).admin_listeners == []
    assert RestServerConfig({"admin.listeners": "http://a:1"}).admin_listeners == [Listener("http", "a", 1)]
    assert RestServerConfig({"admin.listeners": "http://a:1"}, is_internal=True).admin_listeners == []


def test_http_is_advertised_where_there_is_any() -> None:
    both = {"listeners": "https://a:1,http://a:2"}
    assert RestServerConfig(both).advertised_scheme == "http"
    assert RestServerConfig(both | {"rest.advertised.listener": "HTTPS"}).advertised_scheme == "https"
    assert RestServerConfig({"listeners": "https://a:1"}).advertised_scheme == "https"


def test_one_setting_of_the_listeners_own_leaves_all_others_out() -> None:
    config = RestServerConfig({"ssl.key.password": "a", "ssl.truststore.type": "PEM", "admin.listeners.https.ssl.key.password": "b"})
    assert config._ssl("listeners.https.") == {"ssl.key.password": "a", "ssl.truststore.type": "PEM"}
    assert config._ssl("admin.listeners.https.") == {"ssl.key.password": "b"}


def test_an_extension_which_may_be_what_keeps_strangers_out_is_refused() -> None:
    with pytest.raises(ConfigError, match="would answer whom an extension refuses"):
        RestServerConfig({"rest.extension.classes": "com.example.Login"})
    RestServerConfig({"rest.extension.classes": "com.example.Login"}, is_internal=True)  # Apache's has none there


def test_header_rules_set_and_add() -> None:
    rules = parse_header_rules('add X-A: 1, "set X-B: a, b", add X-A: 2, SET x-c:d, setDate Expires: 1000')
    headers = [("X-B", "old")]
    for rule in rules:
        headers = rule.applied(headers, 0)
    assert headers == [("X-A", "1"), ("X-B", "a, b"), ("X-A", "2"), ("x-c", "d"), ("Expires", "Thu, 01 Jan 1970 00:00:01 GMT")]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("set", "Invalid format of header config 'set'"),
        ("get X-A: b", "Invalid header config action: 'get'. Expected one of [set, add, setDate, addDate]"),
        ("set X-A", "Invalid format of header name and header value pair 'X-A'"),
        ("set X A: b", "Invalid header name 'X A'. The '[header name]' cannot contain whitespace"),
        ("addDate X-A: soon", "a number of milliseconds from now"),
    ],
)
def test_wrong_header_rules_are_refused(rule: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        RestServerConfig({"response.http.headers.config": rule})
    assert message in str(refusal.value)


def cors(rules: CrossOrigin, origin: str | None, method: str = "GET", **headers: str) -> dict[str, str]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | ({} if origin is None else {"origin": origin})
    return dict(rules.headers(RestRequest(method, "/", headers=sent)))


def test_pages_of_other_sites() -> None:
    rules = CrossOrigin(r"https://a, https://.*\.test", "GET, PUT")
    assert cors(CrossOrigin("", ""), "https://a") == {}
    assert cors(rules, None) == cors(rules, "https://b") == {"Vary": "Origin"}
    assert cors(rules, "https://x.test") == {"Vary": "Origin", "Access-Control-Allow-Origin": "https://x.test"}
    asked = cors(rules, "https://a", "OPTIONS", access_control_request_method="PUT")
    assert asked["Access-Control-Allow-Methods"] == "GET,PUT"
    assert cors(CrossOrigin("*", ""), "x", "OPTIONS", access_control_request_method="X")["Access-Control-Allow-Methods"] == "GET,POST,HEAD"
