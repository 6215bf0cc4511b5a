"""The rules of ACL sync, as far as one broker shows them (E3, SYN8 to SYN13): a scripted source, the
real steps.
"""

from __future__ import annotations

import pytest
from support.mirrors.mirror_sync_doubles import SyncBench
from support.mirrors.source_double import SourceDouble
from support.mirrors.synced_things import APP, BOB, acl

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, ConfigError, Errors
from kmirror.metadata.image import StandardAcl
from kmirror.metadata.mirror_filters import acl_rules
from kmirror.metadata.resource_configs import parse_acl_rule, validate_mirror_configs
from kmirror.mirror.sync.acl_sync import selected
from kmirror.wire.api_keys import ApiKeys


def takes(filter_text: str, *acls: StandardAcl) -> list[bool]:
    rules = acl_rules({"mirror.acl.include": filter_text})
    return [selected(each, rules) for each in acls]


def test_syn8_trailing_fields_may_be_left_out_and_wrong_rules_are_invalid_config() -> None:
    assert parse_acl_rule("TOPIC") == ("TOPIC", None, None, None, None)
    assert parse_acl_rule("TOPIC;;;;") == parse_acl_rule("TOPIC;*;*;*;*") == parse_acl_rule(" topic ; ; * ")
    wrong = ["a;b;c;d;e;f", "TOPICS", "TOPIC;*;FLY", "TOPIC;*;READ;MAYBE", "TOPIC;[", "*;*;*;*;User:(", "UNKNOWN"]
    for text in wrong:
        with pytest.raises(ConfigError):
            parse_acl_rule(text)
        with pytest.raises(ApiException) as caught:
            validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": f"*,{text}"})
        assert caught.value.error is Errors.INVALID_CONFIG, text


@pytest.mark.item("B33")
def test_syn9_enums_ignore_case_names_and_principals_are_regexes_for_the_whole_text() -> None:
    assert takes("tOpIc;order.;read;Allow;User:al.*", acl(), acl(name="orders-eu"), acl(name="my-orders")) == [True, False, False]
    assert takes("TOPIC;orders;READ;ALLOW;User:ali", acl()) == [False]
    assert takes("any;*;Any", acl(ResourceType.GROUP)) == [True]
    assert takes("*;*;DESCRIBE_CONFIGS", acl(operation=AclOperation.DESCRIBE_CONFIGS), acl()) == [True, False]
    with pytest.raises(ApiException) as caught:
        validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": "TOPIC;a{1,2}"})
    assert caught.value.error is Errors.INVALID_CONFIG


def test_syn10_a_rule_is_synced_if_any_entry_takes_it(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_acl_include="GROUP;*;READ , *;*;*;*;User:bob")
    group, of_bob = acl(ResourceType.GROUP, "g"), acl(principal="User:bob")
    source.acls = {group, of_bob, acl()}
    bench.cycle()
    assert bench.acls == {group, of_bob}


EXAMPLES = {
    "*": (acl(), acl(ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALTER, AclPermissionType.DENY, BOB)),
    "TOPIC;orders.*": (acl(name="orders-eu", principal=BOB, operation=AclOperation.WRITE),),
    "*;*;*;*;User:alice": (acl(ResourceType.GROUP, "g"), acl()),
    "*;*;*;*;User:app-.*": (acl(principal=APP),),
    "TOPIC;*;READ;ALLOW": (acl(name="x", principal=BOB),),
    "GROUP;consumer-.*;READ;ALLOW;User:bob": (acl(ResourceType.GROUP, "consumer-1", principal=BOB),),
    "TOPIC;orders.*,*;*;*;*;User:alice": (acl(name="orders-eu", principal=BOB), acl(ResourceType.GROUP, "g")),
}
LEFT_OUT = {
    "*": (),
    "TOPIC;orders.*": (acl(ResourceType.GROUP, "orders"), acl(name="my-orders")),
    "*;*;*;*;User:alice": (acl(principal=BOB), acl(principal="User:alice2")),
    "*;*;*;*;User:app-.*": (acl(principal="User:my-app-7"), acl()),
    "TOPIC;*;READ;ALLOW": (acl(permission=AclPermissionType.DENY), acl(operation=AclOperation.WRITE), acl(ResourceType.GROUP)),
    "GROUP;consumer-.*;READ;ALLOW;User:bob": (acl(ResourceType.GROUP, "consumer-1"), acl(ResourceType.GROUP, "other", principal=BOB)),
    "TOPIC;orders.*,*;*;*;*;User:alice": (acl(ResourceType.GROUP, "g", principal=BOB),),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_syn11_the_examples_of_the_kip_parse_and_select(example: str) -> None:
    validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": example})
    assert all(takes(example, *EXAMPLES[example]))
    assert not any(takes(example, *LEFT_OUT[example]))


def test_syn12_missing_rules_are_created_with_their_pattern_type(bench: SyncBench, source: SourceDouble) -> None:
    source.acls = {acl(), acl(pattern=PatternType.PREFIXED), acl(permission=AclPermissionType.DENY, principal=BOB)}
    assert bench.cycle() == {}
    assert bench.acls == source.acls
    requests = len(bench.requests)
    bench.cycle(times=3)
    assert len(bench.requests) == requests


def test_syn13_rules_that_the_filter_does_not_take_are_never_deleted(bench: SyncBench, source: SourceDouble) -> None:
    bench.alter_mirror("m", mirror_acl_include="GROUP")
    local = {acl(name="t"), acl(ResourceType.GROUP, "local")}
    bench.add_acls(*local)
    source.acls = {acl(ResourceType.GROUP, "synced")}
    bench.cycle()
    source.acls = set()
    bench.cycle()
    assert bench.acls == local


def test_syn12_a_cluster_without_an_authorizer_has_nothing_to_do_and_does_not_ask() -> None:
    bench = SyncBench(has_authorizer=False)
    source = bench.make_mirror("m", SourceDouble())
    source.topic("t")
    bench.topic("t", mirror="m")
    source.acls = {acl()}
    assert bench.cycle() == {}
    assert source.asked_for(ApiKeys.DESCRIBE_ACLS) == []
    bench.close()


def test_cfg4_an_empty_filter_takes_no_rule_and_the_source_is_not_asked(bench: SyncBench, source: SourceDouble) -> None:
    """What to set for a source without an authorizer, so that nothing is counted."""
    validate_mirror_configs({"bootstrap.servers": "a:1", "mirror.acl.include": ""})
    source.acl_error = Errors.SECURITY_DISABLED
    assert bench.cycle() == {"acl": 1}
    bench.alter_mirror("m", mirror_acl_include="")
    assert bench.cycle() == {}


@pytest.mark.parametrize("error", [Errors.SECURITY_DISABLED, Errors.CLUSTER_AUTHORIZATION_FAILED])
def test_syn13_a_source_that_does_not_show_its_rules_is_an_error_and_deletes_nothing(
    bench: SyncBench, source: SourceDouble, error: Errors
) -> None:
    source.acls = {acl(name="t")}
    bench.cycle()
    source.acl_error = error
    assert bench.cycle(times=2) == {"acl": 2}
    assert bench.acls == source.acls
