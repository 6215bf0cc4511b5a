"""Wrong command lines, and odd ones, through Apache's tools and ours (`tool_comparison`): texts and
exit codes are the same.

`--bootstrap-server` is put behind the tool's name. Left out are lines whose answer holds a set in
the order of Java's identity hashes (states, operations of ACLs, options in brackets), the words of
Jackson and of Java's file and address classes, and rows of a reset plan without an offset, which
Kafka's tool reads as offset 0 and ours refuses.
"""

from __future__ import annotations

import pytest
from support.peers.tool_comparison import Runner, produce

from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

RESET = "groups --reset-offsets --group e --topic g --dry-run"

DATETIMES = """
2020-01-01|2020-01-01T|2020-01-01T00|2020-01-01T00:00|2020-01-01T00:00:00|2020-01-01T00:00:00Z
2020-01-01T00:00:00.000Z|2020-01-01T00:00:00.000+01:00|2020-01-01T00:00:00.000+0100
2020-01-01T00:00:00.000-01|2020-01-01T00:00:00+0100|2020-13-01T00:00:00.000
2020-02-31T00:00:00.000|2020-01-01T25:61:61.000|2020-1-1T1:2:3.4|20-01-01T00:00:00.000
2020-01-01T00:00:00.123456|2020-01-01T00:00:00.000x|2020-01-01T00:00:00.000+1
2020-01-01T00:00:00.000+25:00|T|| 2020-01-01T00:00:00.000|2020-01-01t00:00:00.000|1577836800000
2020-01-01T00:00:00,000|2020/01/01T00:00:00.000|-2020-01-01T00:00:00.000|0000-00-00T00:00:00.000
+2020-01-01T00:00:00.000|12020-01-01T00:00:00.000|2020-01-01T00-00-00.000|1950-01-01T00:00:00.000
2020-01-01T00:00:00.000+GMT|2020-01-01TT00:00:00.000|abcTdef|2020-01-01T00:00:00.
"""

DURATIONS = """
|P|PT|P1Y|P1W|P1M|PT1M1H|PT1.5S|PT1,5S|PT1.5M|PT,5S|PT.5S|PT0.1234567890S|-P1D|p1dt1h|P1DT|1h| P1D
P99999999999999999999D|P999999999999D|P106751991168D|P365241780471D|-P365241780471D|P99999D|foo
-P106751991168D|PT9999999999999999999S|PT9223372036854775807S|PT9223372036854775807H|P999999999D
"""

OF_GROUPS = """
groups --reset-offsets --group e --topic g --dry-run --to-offset abc
groups --reset-offsets --group e --topic g --dry-run --to-offset -5
groups --reset-offsets --group e --topic g --dry-run --to-offset 99999999999999999999
groups --reset-offsets --group e --topic g --dry-run --shift-by x
groups --reset-offsets --group e --topic g --dry-run --shift-by 1
groups --reset-offsets --group e --all-topics --dry-run --shift-by 1
groups --reset-offsets --group e --topic g --dry-run --to-earliest --to-latest
groups --reset-offsets --group e --topic g --dry-run --from-file DIR/nosuch.csv
groups --reset-offsets --group e --topic g --dry-run --from-file DIR
groups --reset-offsets --group e --topic g: --dry-run --to-latest
groups --reset-offsets --group e --topic g:0: --dry-run --to-latest
groups --reset-offsets --group e --topic g:0,,1 --dry-run --to-latest
groups --reset-offsets --group e --topic nosuch:0 --dry-run --to-latest
groups --reset-offsets --group e --topic '' --dry-run --to-latest
groups --reset-offsets --group e --topic g --to-latest
groups --reset-offsets --group e --topic g --all-topics --dry-run --to-latest
groups --describe --group e --offsets --members
groups --describe --group e --verbose --timeout abc
groups --list --type nosuch
share-groups --reset-offsets --group sg --topic g --to-datetime 2020-01-01T00:00 --dry-run
share-groups --reset-offsets --group sg --topic g --to-datetime 2020-01-01 --dry-run
get-offsets --topic nosuch
get-offsets --topic g --time abc
get-offsets --topic g --time -9
get-offsets --topic g --partitions x
get-offsets --topic g --partitions 9
get-offsets --topic-partitions g:x
get-offsets --topic-partitions g:5-2
get-offsets --topic g --topic-partitions g:1
delete-records --offset-json-file DIR/nosuch.json
delete-records --offset-json-file DIR/bad.json
delete-records --offset-json-file DIR/delete.json
delete-records
"""

OF_TOPICS = """
topics --create --topic x --partitions 99999999999
topics --create --topic x --partitions -1
topics --create --topic x --replication-factor abc
topics --create --topic x --replication-factor 99999
topics --create --topic x --replica-assignment a:b
topics --create --topic x --replica-assignment 1:2,3
topics --create --topic g --replica-assignment 1:
topics --create --topic g --replica-assignment 1,
topics --create --topic ''
topics --create --topic .
topics --create --topic x --config a=b=c
topics --create --topic x --config =b
topics --create --topic x --config retention.ms=
topics --create --topic x --config cleanup.policy=foo
topics --alter --topic g --partitions 0
topics --alter --topic g --partitions 2 --replica-assignment 1
topics --alter --topic nosuch --partitions 5
topics --alter --topic nosuch --partitions 5 --if-exists
topics --alter --topic g --partitions x
topics --alter --partitions 5
topics --delete
topics --delete --topic 'nosuch.*' --if-exists
topics --delete --topic ''
topics --describe --topic-id bad
topics --describe --topic-id ''
topics --describe --topic-id bad --topic g
topics --describe --under-replicated-partitions --unavailable-partitions
topics --describe --partition-size-limit-per-response x
topics --describe --if-not-exists
topics --describe --topic 'a('
topics --list --exclude-internal=x
topics
log-dirs --describe --broker-list 9
log-dirs --describe --broker-list x
log-dirs
log-dirs --describe --topic-list nosuch
"""

OF_CONFIGS = """
configs --alter --topic g --delete-config nosuch
configs --alter --topic g --delete-config a --add-config a=b
configs --alter --topic g --add-config ''
configs --alter --topic nosuch --add-config retention.ms=5
configs --alter --broker x --add-config log.retention.ms=5
configs --alter --broker 1 --add-config node.id=5
configs --alter --broker 1 --add-config nosuch=5
configs --alter --entity-type topics --entity-type brokers --entity-name a --add-config a=b
configs --alter --entity-type topics --entity-name a --entity-name b --add-config a=b
configs --alter --broker-logger 1 --add-config nosuch.logger=DEBUG
configs --alter --broker-logger 1 --add-config root=LOUD
configs --alter --group '' --add-config consumer.session.timeout.ms=50000
configs --alter --client-metrics m --add-config nosuch=5
configs --alter --client-metrics m --add-config interval.ms=5
configs --alter --ip nosuchhost.invalid --add-config connection_creation_rate=5
configs --alter --user u --add-config producer_byte_rate=-5
configs --alter --user u --delete-config nosuch
configs --describe --topic 'a b'
configs --describe --topic 'a b' --all
configs --describe --user u --ip 1.2.3.4
configs --describe --all
features upgrade
features upgrade --feature nosuch=1
features upgrade --feature group.version=x
features upgrade --feature group.version
features downgrade --feature group.version=99
features disable --feature nosuch
features nosuch
features
tokens --create
tokens --renew
tokens --describe --owner-principal bad
"""

OF_ACLS_AND_REPLICAS = """
acls --add --topic t --deny-host 1.1.1.1 --operation Read
acls --add --topic '' --allow-principal User:a --operation Read
acls --remove --force
acls --remove --topic t --allow-principal nope --force
acls
acls --add --producer --group t --allow-principal User:a
acls --add --idempotent --consumer --topic t --group g --allow-principal User:a
acls --list --resource-pattern-type nosuch
acls --list --principal :a
reassign --execute --reassignment-json-file DIR/nosuch.json
reassign --execute
reassign --verify
reassign --generate --topics-to-move-json-file DIR/topics.json
reassign --generate --topics-to-move-json-file DIR/topics.json --broker-list a
reassign --generate --topics-to-move-json-file DIR/topics.json --broker-list 1,1
reassign --generate --topics-to-move-json-file DIR/topics.json --broker-list 9
reassign --execute --reassignment-json-file DIR/delete.json --throttle abc
reassign --cancel
reassign --list --verify
reassign
election --election-type preferred --topic nosuch --partition 0
election --election-type nosuch --all-topic-partitions
election --election-type preferred
election --election-type preferred --topic g
election --election-type preferred --topic g --partition 9
election --election-type preferred --topic g --partition x
election --election-type unclean --topic g --partition 0
election --election-type preferred --path-to-json-file DIR/nosuch.json
election --election-type preferred --path-to-json-file DIR/bad.json
election --election-type preferred --all-topic-partitions --topic g --partition 0
election --all-topic-partitions
"""


@pytest.fixture
def prepared(runner: Runner, cluster: EmbeddedCluster) -> Runner:
    runner.file("bad.json", "{nope")
    runner.file("topics.json", {"topics": [{"topic": "g"}], "version": 1})
    partitions = [{"topic": "g", "partition": 0, "offset": 99}]
    runner.file("delete.json", {"partitions": partitions, "version": 1})
    runner.run("< topics --bootstrap-server BS --create --topic g --partitions 3 --if-not-exists")
    produce(cluster, "g", 30, 3)
    return runner


def connected(script: str) -> str:
    """The lines with `--bootstrap-server BS` behind the tool."""
    lines = [line.partition(" ") for line in script.strip().splitlines()]
    return "\n".join(f"{tool} --bootstrap-server BS {rest}" for tool, _, rest in lines)


def words(text: str) -> list[str]:
    return [word for line in text.strip("\n").splitlines() for word in line.split("|")]


def test_datetimes_and_durations(prepared: Runner) -> None:
    lines = [f"{RESET} --to-datetime '{word}'" for word in words(DATETIMES)]
    lines += [f"{RESET} --by-duration='{word}'" for word in words(DURATIONS)]
    prepared.run(connected("\n".join(lines)))


@pytest.mark.parametrize("script", [OF_GROUPS, OF_TOPICS, OF_CONFIGS, OF_ACLS_AND_REPLICAS])
def test_wrong_command_lines(prepared: Runner, script: str) -> None:
    prepared.run(connected(script))
