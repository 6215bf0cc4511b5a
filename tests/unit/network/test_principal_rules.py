"""From certificates and Kerberos names to principals: Kafka's rules and its refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.network.security.distinguished_name import subject_of
from kmirror.network.security.kerberos_short_namer import KerberosName, KerberosShortNamer
from kmirror.network.security.ssl_factory import openssl_cipher_name
from kmirror.network.security.ssl_principal_mapper import NoMatchingRuleError, SslPrincipalMapper


def test_rules_are_tried_in_order() -> None:
    mapper = SslPrincipalMapper(
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L , RULE:^cn=(.*?),ou=(.*?)$/$1/U,DEFAULT"
    )
    assert mapper.name_of("CN=Duke,OU=ServiceUsers,O=Org,C=US") == "duke"
    assert mapper.name_of("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US") == "duke@sme"
    assert mapper.name_of("cn=duke,ou=JavaSoft") == "DUKE"
    assert mapper.name_of("OU=JavaSoft,O=Sun") == "OU=JavaSoft,O=Sun"


def test_back_references_are_javas() -> None:
    assert SslPrincipalMapper("RULE:^CN=(.*?),(.*)$/$11-$3\\$/").name_of("CN=a,b") == "a1-$3$"


def test_no_rule_applies() -> None:
    with pytest.raises(NoMatchingRuleError, match=r"No rules apply to OU=x, rules \[RULE:\^CN=\(.\*\)/\$1/L\]"):
        SslPrincipalMapper("RULE:^CN=(.*)/$1/L").name_of("OU=x")


@pytest.mark.parametrize("rules", ["defaul", "RULE:^CN=(.*?)/$1", "RULE:^CN=((.*?)/$1/", "DEFAULT extra"])
def test_principal_rules_that_are_none(rules: str) -> None:
    if rules == "defaul":
        assert SslPrincipalMapper("").__class__ is SslPrincipalMapper  # empty rules are ignored
        return
    with pytest.raises((ConfigError, NoMatchingRuleError)):
        SslPrincipalMapper(rules).name_of("CN=x")


def certificate_of(name: Any) -> bytes:
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime(2026, 1, 1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def test_a_distinguished_name_is_written_as_java_does() -> None:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Berlin"),
        (NameOID.ORGANIZATION_NAME, "Café, Inc."),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Dev"),
        (NameOID.EMAIL_ADDRESS, "a@b"),
        (NameOID.COMMON_NAME, " alice"),
    ]
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])
    expected = "CN=\\ alice,1.2.840.113549.1.9.1=#1603614062,OU=Dev,O=Café\\, Inc.,ST=Berlin,C=DE"
    assert subject_of(certificate_of(name)) == expected


def test_kerberos_names() -> None:
    assert KerberosName.parse("kafka/host.example@REALM") == ("kafka", "host.example", "REALM")
    assert KerberosName.parse("alice@REALM") == ("alice", None, "REALM")
    assert KerberosName.parse("alice") == ("alice", None, None)
    with pytest.raises(KmirrorError, match="Malformed Kerberos name: a@b@c"):
        KerberosName.parse("a@b@c")


def test_kerberos_rules() -> None:
    rules = [
        "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
        "RULE:[2:$1]",
        "RULE:[2:$1/$2@$0](x/.*)s/@.*//",
        "RULE:[1:$1@$0](.*@OTHER)s/@.*///U",
        "DEFAULT",
    ]
    namer = KerberosShortNamer("REALM.COM", rules)
    assert namer.short_name("App.service-name@REALM.COM") == "service-name"
    assert namer.short_name("kafka/host@REALM.COM") == "kafka"
    assert namer.short_name("alice@OTHER") == "ALICE"
    assert namer.short_name("user@REALM.COM") == "user"
    assert namer.short_name("plain") == "plain"
    with pytest.raises(NoMatchingRuleError, match="No rules apply to alice@ELSEWHERE"):
        namer.short_name("alice@ELSEWHERE")


@pytest.mark.parametrize("rule", ["", "default", "RULE:[1:$1", "RULE:[:$1]", "DEFAULTx"])
def test_kerberos_rules_that_are_none(rule: str) -> None:
    with pytest.raises(ConfigError, match="Invalid rule"):
        KerberosShortNamer("R", [rule])


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA256", "DHE-RSA-AES128-SHA256"),
    ],
)
def test_cipher_names(iana: str, openssl: str) -> None:
    assert openssl_cipher_name(iana) == openssl
