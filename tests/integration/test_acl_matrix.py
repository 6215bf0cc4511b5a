"""The ACL matrix (tests/support/brokers/acl_matrix.py) asked of kmirror in this process: every
outcome is Apache Kafka 4.3's.

Users need no login here: requests are handed to the broker and to the controller with the user's
principal on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.acl_matrix import CASES, GOLDEN, message_of, run, variants
from support.brokers.kmirror_side import AUTHORIZED, KmirrorSide

from kmirror import EmbeddedCluster
from kmirror.server.broker_api_table import ROWS, AnsweredBy
from kmirror.wire.api_keys import ApiKeys

KNOWN: dict[str, str] = {}
"""Outcomes that differ and why, by the beginning of the variant's name."""


@pytest.fixture(scope="module")
def side() -> Iterator[KmirrorSide]:
    config = {**AUTHORIZED, "offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
    config["delegation.token.secret.key"] = "a secret"
    with EmbeddedCluster(config=config) as cluster:
        yield KmirrorSide(cluster)


@pytest.fixture(scope="module")
def outcomes(side: KmirrorSide) -> dict[str, Any]:
    return run(side)


def is_known(label: str) -> bool:
    return any(label.startswith(known) for known in KNOWN)


RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())


def test_every_variant_is_recorded() -> None:
    assert {f"{variant.case.name} | {variant.label}" for variant in variants()} == RECORDED.keys()


def test_what_is_known_to_differ_still_does(outcomes: dict[str, Any]) -> None:
    differing = [label for label in outcomes if outcomes[label] != RECORDED[label]]
    assert [known for known in KNOWN if not any(label.startswith(known) for label in differing)] == []


def test_every_api_that_is_served_is_in_the_matrix(side: KmirrorSide) -> None:
    served = {row.api_key for row in side.ask(None, ApiKeys.API_VERSIONS, 0, message_of(ApiKeys.API_VERSIONS, {})).api_keys}
    logins = {ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE}
    refused = {row.api_key for row in ROWS if row.answered_by is AnsweredBy.REFUSED}
    assert served - logins - refused - {case.api_key for case in CASES} == set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kmirror_answers_as_apache_kafka(case: Any, outcomes: dict[str, Any]) -> None:
    labels = [f"{variant.case.name} | {variant.label}" for variant in variants() if variant.case is case]
    differing = {
        label: (outcomes[label], RECORDED[label]) for label in labels if outcomes[label] != RECORDED[label] and not is_known(label)
    }
    assert not differing, "\n".join(f"{label}\n  kmirror {ours}\n  Kafka   {kafka}" for label, (ours, kafka) in differing.items())
