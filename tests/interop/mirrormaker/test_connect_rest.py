"""Connect's REST interface: Apache Kafka's standalone worker and `connect-standalone` get the same
requests, good and bad, and answer alike; each goes on with the other's file of offsets.

Two things are not compared: texts that only name Apache's Java (what Jackson says of a body, what a
null pointer was), and pages of HTML by Jetty. Where kmirror answers otherwise on purpose, DIFFERENT says
both answers.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from support.mirrormaker.connect_workers import Answer, ConnectProcess, apache_standalone, our_standalone, worker_properties
from support.mirrormaker.logs_compared import make_topics, produce
from support.mirrormaker.mirror_makers import count_of

from kmirror import EmbeddedCluster

pytestmark = pytest.mark.interop

BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
SRC = "/connectors/src"
PARTITION = {"cluster": "A", "partition": 0, "topic": "t"}
HEARTBEAT_PARTITION = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
SOURCE = {
    "connector.class": "MirrorSourceConnector", "tasks.max": "2", "topics": "t", "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1", "refresh.topics.interval.seconds": "1", "sync.topic.acls.enabled": "false",
    "consumer.poll.timeout.ms": "200",
}  # fmt: skip
HEARTBEAT = {"connector.class": "MirrorHeartbeatConnector", "heartbeats.topic.replication.factor": "1"}
CHECKPOINT = {"connector.class": "MirrorCheckpointConnector", "checkpoints.topic.replication.factor": "1"}
NOT_OF_INTEREST = re.compile(r"Cannot invoke|REDACTED|recognizable type|^Cannot read the request|^The body ")
NOT_A_REQUEST = re.compile(r"^$|Ambiguous URI|Suspicious Path|Bad (UTF-8|Request)")
SHORTENED = re.compile(
    r"(org\.apache\.kafka\.connect\.(errors\.ConnectException|runtime\.rest\.errors\.BadRequestException): )|(available connectors are: ).*"
)


class Until(NamedTuple):
    """Waits until the JSON at `path` shows, with blanks left out, what the pattern finds."""

    path: str
    pattern: str


class Ask(NamedTuple):
    method: str
    path: str
    body: Any = None
    headers: Mapping[str, str] | None = None


def offsets(partition: Any, offset: Any) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset}]}


DIFFERENT = {
    # Apache's standalone worker trips over a connector that it does not have, and its distributed worker says so.
    Ask("PUT", "/connectors/nope/stop"): (500, 404, "Unknown connector nope"),
    Ask("POST", "/connectors/nope/restart"): (500, 404, "Connector nope not found"),
    Ask("POST", "/connectors/nope/tasks/0/restart"): (500, 404, "Connector nope not found"),
}

WHAT_THERE_IS = [
    Until(f"{SRC}/status", r'"id":0,"state":"RUNNING".*"id":1,"state":"RUNNING"'),
    Until(f"{SRC}/offsets", r'"offset":49.*"offset":49'),
    Ask("GET", "/"), Ask("GET", "/health"), Ask("GET", "/connectors"), Ask("GET", "/connectors/"), Ask("GET", SRC), Ask("GET", f"{SRC}/"),
    Ask("GET", "/connectors?expand=status&expand=info&expand=x"), Ask("GET", "/connectors?expand="), Ask("GET", f"{SRC}/config"),
    Ask("GET", f"{SRC}/status"), Ask("GET", f"{SRC}/tasks"), Ask("GET", f"{SRC}/tasks/0/status"), Ask("GET", f"{SRC}/tasks/+0/status"),
    Ask("GET", f"{SRC}/topics"), Ask("GET", f"{SRC}/offsets"), Ask("GET", "/connector-plugins"),
    *(Ask("GET", f"/connectors/nope{rest}") for rest in ("", "/config", "/status", "/tasks", "/tasks/0/status", "/topics", "/offsets", "/x")),
    *(Ask("GET", f"{SRC}/tasks/{number}/status") for number in ("9", "-1", "x", "99999999999")),
    Ask("GET", f"{SRC}/tasks-config"), Ask("GET", "/nope"), Ask("GET", "/connector-plugins/nope/config"),
]  # fmt: skip
HTTP = [
    Ask("POST", "/"), Ask("PUT", "/connectors"), Ask("PATCH", "/connectors"), Ask("TRACE", "/connectors"), Ask("OPTIONS", "/nope"),
    Ask("OPTIONS", "/connectors"), Ask("OPTIONS", f"{SRC}/config"), Ask("OPTIONS", f"{SRC}/tasks"), Ask("HEAD", "/connectors"),
    Ask("HEAD", "/connectors/nope"),
    *(Ask("GET", "/connectors", None, {"Accept": accept}) for accept in
      ("", "*/*", "text/html", "text/html, */*;q=0.1", "application/*", "garbage", "application/json;q=0")),
    *(Ask("POST", "/connectors", "{}", {"Content-Type": kind}) for kind in
      ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "garbage")),
    Ask("GET", "/connectors", None, {"Content-Type": "text/plain"}), Ask("DELETE", "/connectors/nope", None, {"Content-Type": "text/plain"}),
    Ask("PUT", "/connectors/nope/pause", None, {"Content-Type": "text/plain"}), Ask("PUT", f"{SRC}/stop", None, {"Accept": "text/html"}),
    *(Ask("GET", path) for path in ("/connectors//", "/connectors/a+b", "/connectors/a;x=1", "/connectors/%C3%A4", "/connectors/%20")),
    *(Ask("GET", f"/connectors/a{text}b") for text in ("%2F", "%5C", "%25", "%0A", "%00", "%zz", "%FF", "%7F", "%20")),
    Ask("GET", "/connectors/%2e%2e"), Ask("PUT", "/connectors/a%2Fb/config", HEARTBEAT),
]  # fmt: skip
BODIES = [
    *(Ask("POST", "/connectors", body) for body in (None, "{", "[]", '"x"', "null", "{} x", "{}", b"\xff\xfe", '{"name":NaN}', "{'a':1}")),
    *(Ask("POST", "/connectors", {"name": "a", **body}) for body in (
        {}, {"config": {}}, {"config": {"b": 1}}, {"config": {"b": [1]}}, {"config": {}, "x": 1}, {"config": {"name": "b"}},
        {"config": {}, "initial_state": "nope"}, {"config": {}, "initial_state": "paused"}, {"config": {"connector.class": "X"}},
        {"config": {"connector.class": "X", "name": "a"}, "initial_state": None})),
    Ask("POST", "/connectors", '{"name":"a","name":"b","config":{}}'),
    Ask("PUT", f"{SRC}/config"), Ask("PUT", f"{SRC}/config", "null"), Ask("PUT", f"{SRC}/config", {"name": "x"}),
    Ask("PATCH", f"{SRC}/config", "null"), Ask("PATCH", "/connectors/nope/config", {"a": "b"}),
    Ask("PATCH", f"{SRC}/config", {"tasks.max": "x"}), Ask("PATCH", f"{SRC}/config", {"connector.class": "Y"}),
    Ask("PATCH", f"{SRC}/offsets"), *(Ask("PATCH", f"{SRC}/offsets", body) for body in (
        {}, [], {"offsets": []}, {"offsets": None}, {"offsets": "x"}, {"offsets": ["x"]}, {"offsets": [], "x": 1},
        {"offsets": [{"partition": PARTITION, "offset": None, "z": 1}]}, offsets({"a": 1}, {"offset": 1}))),
    Ask("PATCH", "/connectors/nope/offsets", offsets({"a": 1}, None)), Ask("DELETE", f"{SRC}/offsets"), Ask("DELETE", "/connectors/nope/offsets"),
    *(Ask("PUT", f"/connectors/nope/{verb}") for verb in ("pause", "resume", "stop", "topics/reset")), Ask("DELETE", "/connectors/nope"),
    Ask("POST", "/connectors/nope/restart"), Ask("POST", "/connectors/nope/restart?includeTasks=true"),
    Ask("POST", "/connectors/nope/tasks/0/restart"), Ask("POST", f"{SRC}/tasks/7x/restart"),
    Ask("POST", f"{SRC}/tasks", "[]"), Ask("POST", f"{SRC}/tasks", "{"), Ask("PUT", f"{SRC}/fence"), Ask("GET", f"{SRC}/fence"),
]  # fmt: skip
STATES = [
    Ask("POST", f"{SRC}/restart?includeTasks=maybe&onlyFailed=true"), Ask("POST", f"{SRC}/restart"),
    Ask("PUT", f"{SRC}/pause"), Until(f"{SRC}/status", r'"state":"PAUSED".*"id":0,"state":"PAUSED".*"id":1,"state":"PAUSED"'),
    Ask("GET", f"{SRC}/status"), Ask("GET", SRC),
    Ask("PUT", f"{SRC}/pause"), Ask("POST", f"{SRC}/tasks/0/restart"), Ask("POST", f"{SRC}/restart"),
    Until(f"{SRC}/status", r'"state":"PAUSED".*"id":0,"state":"PAUSED".*"id":1,"state":"PAUSED"'),
    Ask("POST", f"{SRC}/restart?includeTasks=true"), Until(f"{SRC}/status", r'"state":"PAUSED".*"id":0,"state":"PAUSED".*"id":1,"state":"PAUSED"'),
    Ask("PATCH", f"{SRC}/offsets", offsets(PARTITION, {"offset": 1})),
    Ask("PUT", f"{SRC}/resume"), Until(f"{SRC}/status", r'"state":"RUNNING".*"id":0,"state":"RUNNING".*"id":1,"state":"RUNNING"'),
    Ask("POST", f"{SRC}/restart?includeTasks=true&onlyFailed=true"), Ask("PUT", f"{SRC}/topics/reset"), Ask("GET", f"{SRC}/topics"),
    Ask("PUT", f"{SRC}/stop"), Ask("PUT", f"{SRC}/stop"), Until(f"{SRC}/status", r'"state":"STOPPED"'), Ask("GET", f"{SRC}/status"),
    Ask("GET", SRC), Ask("GET", f"{SRC}/tasks"), Ask("GET", f"{SRC}/tasks/0/status"),
    Ask("POST", f"{SRC}/restart"), Ask("POST", f"{SRC}/restart?includeTasks=true"), Until(f"{SRC}/status", r'"state":"STOPPED"'),
]  # fmt: skip
OFFSETS = [
    *(Ask("PATCH", f"{SRC}/offsets", offsets(PARTITION, offset)) for offset in (
        {"offset": 10}, {"offset": -1}, {"offset": "1"}, {"x": 1}, {"offset": 3, "y": 2}, {"offset": 3.5}, {"offset": None}, {"offset": 2**40})),
    *(Ask("PATCH", f"{SRC}/offsets", offsets(PARTITION | other, {"offset": 1})) for other in (
        {"partition": "0"}, {"partition": -1}, {"partition": 1.0}, {"partition": 2**40}, {"partition": None}, {"topic": ""}, {"topic": 7},
        {"topic": None}, {"cluster": None}, {"cluster": "Z"}, {"x": 1})),
    *(Ask("PATCH", f"{SRC}/offsets", offsets(partition, {"offset": 1})) for partition in (
        None, {}, {"cluster": "A"}, {"cluster": "A", "topic": "t"}, {"partition": 0, "topic": "t"})),
    Ask("PATCH", f"{SRC}/offsets", {"offsets": [{"partition": PARTITION}, {"partition": PARTITION, "offset": {"offset": 7}}]}),
    Ask("PATCH", f"{SRC}/offsets", offsets(PARTITION | {"partition": 1}, None)), Ask("PATCH", f"{SRC}/offsets", offsets({"x": 1}, None)),
    Ask("GET", f"{SRC}/offsets"), Ask("DELETE", f"{SRC}/offsets"), Ask("GET", f"{SRC}/offsets"), Ask("DELETE", f"{SRC}/offsets"),
    Ask("PATCH", f"{SRC}/offsets", offsets(PARTITION, {"offset": 48})), Ask("PUT", f"{SRC}/resume"),
    Until(f"{SRC}/offsets", r'"offset":49.*"offset":49'), Ask("GET", f"{SRC}/topics"),
]  # fmt: skip


def made(aliases: Mapping[str, str]) -> list[Ask | Until]:
    """Makes, changes and removes connectors; `aliases` are what each needs to reach its clusters."""
    heartbeat, checkpoint, source = ({**one, **aliases} for one in (HEARTBEAT, CHECKPOINT, SOURCE))
    hb, cp = "/connectors/hb%20x", "/connectors/cp"
    return [
        Ask("PUT", f"{hb}/config", heartbeat), Ask("PUT", f"{hb}/config", heartbeat | {"tasks.max": 2}),
        Ask("POST", "/connectors", {"name": "hb x", "config": heartbeat}),
        Until(f"{hb}/topics", r'"heartbeats"'), Ask("GET", f"{hb}/topics"), Ask("GET", f"{hb}/tasks"),
        Ask("PUT", f"{hb}/stop"), *(Ask("PATCH", f"{hb}/offsets", offsets(*one)) for one in (
            (HEARTBEAT_PARTITION, {"offset": 0}), (HEARTBEAT_PARTITION, {"offset": 1}), ({"sourceClusterAlias": "A"}, {"offset": 0}),
            (HEARTBEAT_PARTITION, None))),
        Ask("POST", "/connectors", {"name": " hb2 ", "config": heartbeat, "initial_state": "STOPPED"}),
        Until("/connectors/hb2/status", "STOPPED"), Ask("GET", "/connectors/hb2/status"), Ask("GET", "/connectors/hb2"),
        Ask("PATCH", "/connectors/hb2/config", {"tasks.max": 3, "topics": None}), Ask("GET", "/connectors/hb2/config"),
        Ask("PATCH", "/connectors/hb2/config", {"tasks.max": None}), Ask("PATCH", "/connectors/hb2/config", {}),
        Ask("PATCH", "/connectors/hb2/config", {"connector.class": None}), Until("/connectors/hb2/status", "STOPPED"),
        Ask("POST", "/connectors", {"name": "p", "config": heartbeat, "initial_state": "paused"}),
        Until("/connectors/p/status", "PAUSED"), Ask("GET", "/connectors/p/status"), Ask("PUT", "/connectors/p/resume"),
        Until("/connectors/p/status", '"id":0,"state":"RUNNING"'), Ask("POST", "/connectors", {"name": 5, "config": heartbeat}),
        *(Ask("POST", "/connectors", {"name": name, "config": heartbeat}) for name in ("bad\nname", "", None)),
        Ask("POST", "/connectors", {"name": "n", "config": heartbeat | {"x": None}}),
        Ask("PUT", f"{cp}/config", checkpoint), Ask("PUT", f"{cp}/stop"), *(Ask("PATCH", f"{cp}/offsets", offsets(*one)) for one in (
            ({"group": "g", "topic": "t", "partition": 0}, {"offset": 0}), ({"group": "g", "topic": "t", "partition": 0}, {"offset": 1}),
            ({"group": "g"}, {"offset": 0}), ({"group": 4, "topic": "t", "partition": 0}, {"offset": 0}), ({"a": 1}, None))),
        *(Ask("PUT", "/connectors/w/config", heartbeat | wrong) for wrong in (
            {"tasks.max": "0", "errors.tolerance": "x", "emit.heartbeats.enabled": "perhaps"}, {"key.converter": "nope"},
            {"transaction.boundary": "x"})),
        Ask("PUT", "/connectors/w/config", {"connector.class": "MirrorSourceConnector"}),
        Ask("PUT", "/connectors/w/config", source | {
            "exactly.once.support": "required", "emit.offset-syncs.enabled": "false", "offset-syncs.topic.replication.factor": "1"}),
        Ask("PUT", "/connectors/w/config", checkpoint | {"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"}),
        Ask("GET", "/connectors/w"),
        *(Ask("DELETE", f"/connectors/{name}") for name in ("hb%20x", "hb2", "p", "5", "cp", "cp")), Ask("GET", "/connectors"),
        Ask("GET", f"{hb}/status"),
    ]  # fmt: skip


def validated() -> list[Ask | Until]:
    found: list[Ask | Until] = []
    for name in ("Source", "Heartbeat", "Checkpoint"):
        path = f"/connector-plugins/Mirror{name}Connector/config"
        given = {"connector.class": f"Mirror{name}Connector", "name": "a"}
        found += [
            Ask("GET", path),
            Ask("PUT", f"{path}/validate", given),
            Ask(
                "PUT",
                f"{path}/validate",
                given | {"source.cluster.alias": "A", "tasks.max": "x", "foo": "bar", "ssl.key.password": "secret"},
            ),
            Ask(
                "PUT", f"{path}/validate", given | {"emit.offset-syncs.enabled": "false", "topics": "", "offset-syncs.topic.location": "x"}
            ),
        ]
    path = "/connector-plugins/MirrorSource/config/validate"
    return [
        *found,
        *(Ask("PUT", path, body) for body in (None, {}, {"connector.class": "Foo"}, {"connector.class": "MirrorSource"})),
        Ask("PUT", "/connector-plugins/Nope/config/validate", {"connector.class": "Nope"}),
    ]


def odd(aliases: Mapping[str, str]) -> list[Ask | Until]:
    """Names that must be quoted in a URL, versions of plugins, and connectors that have nothing to do."""
    heartbeat, source = {**HEARTBEAT, **aliases}, {**SOURCE, **aliases}
    given, path = {"connector.class": "MirrorHeartbeatConnector"}, "/connector-plugins/MirrorHeartbeatConnector/config"
    names = {"a.b": "a.b", "a b": "a%20b", "\u00e4": "%C3%A4", "a?b": "a%3Fb", "a+b": "a+b", "A": "A"}
    return [
        *(Ask("GET", f"/connectors?{query}") for query in ("expand=STATUS", "expand=status,info", "forward=maybe", "connector=src")),
        *(Ask("GET", f"/connector-plugins/{name}/config?version={version}") for name in ("MirrorSourceConnector", "MirrorSource", "mirrorsource")
          for version in ("4.3.0", "1.0", "latest", "")),
        *(Ask("PUT", f"{path}/validate", given | change) for change in (
            {"connector.class": None}, {"connector.class": ""}, {"connector.class": " MirrorHeartbeatConnector "}, {"tasks.max": "-1"},
            {"config.action.reload": "x"}, {"topic.creation.groups": "g"}, {"topic.creation.groups": "g, g"},
            {"topic.creation.groups": "g", "topic.creation.g.include": "(", "topic.creation.default.partitions": "0"}, {"exactly.once.support": "required"}, {"name": "a/b"},
            {"transaction.boundary.interval.ms": "0"}, {"errors.retry.timeout": "x"}, {"heartbeats.topic.replication.factor": "0"},
            {"value.converter": ""}, {"connector.plugin.version": "[4.0,5.0)"}, {"security.protocol": "x"})),
        *(step for name, quoted in names.items() for step in (
            Ask("POST", "/connectors", {"name": name, "config": heartbeat}), Ask("GET", f"/connectors/{quoted}/config"),
            Ask("DELETE", f"/connectors/{quoted}"))),
        *(Ask("POST", "/connectors", {"name": name, "config": heartbeat}) for name in ("..", ".")),
        Ask("POST", "/connectors", {"name": "d", "config": heartbeat | {"emit.heartbeats.enabled": "false"}}),
        Until("/connectors/d/status", "RUNNING"), Ask("GET", "/connectors/d/status"), Ask("GET", "/connectors/d/tasks"),
        *(Ask("PATCH", "/connectors/d/config", change) for change in ({"tasks.max": 7}, {"x": True}, {"x": [1]}, {"x": {"y": 1}}, [],
                                                                     {"emit.heartbeats.interval.seconds": "x"}, {"name": "d"})),
        Ask("GET", "/connectors/d/config"), Ask("PUT", "/connectors/d/stop"), Until("/connectors/d/status", "STOPPED"),
        Ask("PUT", "/connectors/d/pause"), Until("/connectors/d/status", "PAUSED"), Ask("PUT", "/connectors/d/stop"),
        Until("/connectors/d/status", "STOPPED"), Ask("DELETE", "/connectors/d/offsets"),
        Ask("PATCH", "/connectors/d/offsets", offsets(HEARTBEAT_PARTITION, {"offset": 0})), Ask("GET", "/connectors/d/offsets"),
        Ask("DELETE", "/connectors/d/offsets"), Ask("GET", "/connectors/d/offsets"), Ask("DELETE", "/connectors/d?forward=true"),
        *(Ask("POST", "/connectors", {"name": "f", "config": source | change}) for change in (
            {"topics": "a,,b"}, {"replication.policy.class": "nope"}, {"topic.filter.class": "nope"}, {"tasks.max": "2147483648"})),
    ]  # fmt: skip


A_CLASS, NO_CLASS = "org.apache.kafka.connect.transforms.", "transforms.a.type"
FILTER = {"transforms": "a", NO_CLASS: "Filter"}


def transformed(aliases: Mapping[str, str]) -> list[Ask | Until]:
    """Transformations and predicates: what they add to a connector's configs, and what is wrong with them."""
    path = "/connector-plugins/MirrorHeartbeatConnector/config/validate"
    given = {"connector.class": "MirrorHeartbeatConnector", "name": "a", "source.cluster.alias": "A", "target.cluster.alias": "B"}
    sided = ("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField", "SetSchemaMetadata",
             "TimestampConverter")  # fmt: skip
    whole = ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
    predicates = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    wrong: tuple[dict[str, str], ...] = (
        {"transforms": "a"}, FILTER | {"transforms": "a,a"}, FILTER | {NO_CLASS: "nope"}, FILTER | {"transforms.a.negate": "true"},
        FILTER | {"transforms.a.predicate": "nope"}, {"predicates": "p", "predicates.p.type": "Filter"}, FILTER | {NO_CLASS: ""},
        FILTER | {NO_CLASS: "RecordIsTombstone"}, FILTER | {"transforms.a.plugin.version": "1.0"},
        FILTER | {"transforms.a.plugin.version": "x["}, FILTER | {"transforms.a.plugin.version": "[4.0,5.0)"}, FILTER | {"transforms": "a,"},
        FILTER | {"transforms": "a,b", "transforms.b.type": "InsertHeader"}, FILTER | {"transforms": ""}, FILTER | {NO_CLASS: "Cast$Value"},
        FILTER | {NO_CLASS: f"{A_CLASS}Cast"}, FILTER | {NO_CLASS: f"{A_CLASS}Cast$Value", "transforms.a.spec": "x:y:z"},
        FILTER | {NO_CLASS: f"{A_CLASS}Cast$Key", "transforms.a.spec": "x:nope"}, {"predicates": "p,p", "predicates.p.type": "HasHeaderKey"},
        FILTER | {"transforms.a.predicate": "p", "transforms.a.negate": "x", "predicates": "p"}, {"predicates": "p", "transforms": "p"},
        FILTER | {NO_CLASS: "DropHeaders", "transforms.a.headers": "h,h"}, FILTER | {NO_CLASS: "DropHeaders", "transforms.a.headers": ""},
        FILTER | {NO_CLASS: f"{A_CLASS}ReplaceField$Key", "transforms.a.renames": "a,b:c"}, FILTER | {"transforms.a.negate": "x"},
        FILTER | {NO_CLASS: f"{A_CLASS}InsertField$Key"}, FILTER | {NO_CLASS: f"{A_CLASS}SetSchemaMetadata$Key"},
        FILTER | {NO_CLASS: "RegexRouter", "transforms.a.regex": "a", "transforms.a.replacement": ""}, {"transforms.a.type": "nope"},
        FILTER | {NO_CLASS: f"{A_CLASS}ExtractField$Key", "transforms.a.field": "x", "transforms.a.field.syntax.version": "V3"},
        FILTER | {NO_CLASS: f"{A_CLASS}TimestampConverter$Key", "transforms.a.target.type": "none", "transforms.a.unix.precision": "x"},
        {"predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": ""}, {"errors.retry.timeout": "-1"},
        {"errors.tolerance": "ALL"}, {"errors.log.enable": "x"},
    )  # fmt: skip
    return [
        Ask("GET", "/connector-plugins?connectorsOnly=false"), Ask("GET", "/connector-plugins?connectorsOnly=true"),
        *(Ask("GET", f"/connector-plugins/{name}/config") for name in (*whole, *predicates, "Cast", "Cast$Key", f"{A_CLASS}Cast$Key")),
        *(Ask("GET", f"/connector-plugins/{A_CLASS}{name}/config?version=1.0") for name in whole[:1]),
        *(Ask("PUT", path, given | {"transforms": "a", NO_CLASS: name}) for name in whole),
        *(Ask("PUT", path, given | {"transforms": "a", NO_CLASS: f"{A_CLASS}{name}${side}"}) for name in sided for side in ("Key", "Value")),
        *(Ask("PUT", path, given | {"predicates": "p", "predicates.p.type": name}) for name in predicates),
        *(Ask("PUT", path, given | change) for change in wrong),
        *(Ask("POST", "/connectors", {"name": "t", "config": HEARTBEAT | aliases | change}) for change in wrong[:12]),
        *(Ask("DELETE", f"/connectors/{name}") for name in ("t", "t")),
    ]  # fmt: skip


HEADERS = {
    "access.control.allow.origin": "http://ops.example, http://.*[.]test", "access.control.allow.methods": "GET,OPTIONS,PUT",
    "response.http.headers.config": 'add X-A: 1, "set X-B: a, b", SET x-c:d, add X-A: 2',
}  # fmt: skip
CORS = [
    Ask(method, path, None, {"Origin": origin, **asked})
    for origin in ("http://ops.example", "http://a.test", "http://a.tests", "null")
    for method, path in (("GET", "/connectors"), ("OPTIONS", "/connectors"), ("DELETE", "/connectors/nope"), ("GET", "/nope"))
    for asked in ({}, {"Access-Control-Request-Method": "PUT"})
]
COMPARED = ("location", "allow", "content-type", "vary", "x-a", "x-b", "x-c", "access-control-allow-origin", "access-control-allow-methods",
            "access-control-allow-headers", "access-control-max-age")  # fmt: skip
LOGGERS = [
    Ask("GET", "/admin/loggers/root"), Ask("GET", "/admin/loggers/nope"), Ask("PUT", "/admin/loggers/x.y", {"level": "xx"}),
    Ask("PUT", "/admin/loggers/x.y", {}), Ask("PUT", "/admin/loggers/x.y"), Ask("PUT", "/admin/loggers/x.y", {"level": "debug"}),
    Ask("PUT", "/admin/loggers/x.y?scope=worker", {"level": "warn"}), Ask("PUT", "/admin/loggers/x.y?scope=cluster", {"level": "WARN"}),
    Ask("PUT", "/admin/loggers/x.y?scope=z", {"level": "INFO"}), Ask("GET", "/admin/loggers/x.y"), Ask("POST", "/admin/loggers/x.y"),
    *(Ask("PUT", "/admin/loggers/a.b", {"level": level}) for level in ("OFF", "FATAL", " info ", "INFO", 5, None)),
    Ask("PUT", "/admin/loggers/a.b", {"Level": "INFO"}), Ask("PUT", "/admin/loggers/root", {"level": "INFO"}), Ask("GET", "/admin"),
    *(Ask("PUT", f"/admin/loggers/a.b?{scope}", {"level": "TRACE"}) for scope in ("scope=", "scope=CLUSTER", "scope=worker&scope=cluster")),
    Ask("DELETE", "/admin/loggers/a.b"), Ask("GET", "/admin/loggers/a%20b"),
]  # fmt: skip


class Pair:
    """Both workers, each with a target of its own."""

    def __init__(self, workers: Mapping[str, ConnectProcess], servers: Mapping[str, str]) -> None:
        self.workers = workers
        self.servers = servers
        self.wrong: list[str] = []

    def run(self, steps: list[Ask | Until]) -> None:
        for step in steps:
            if isinstance(step, Until):
                for worker in self.workers.values():
                    worker.until(
                        step.path, lambda worker=worker, step=step: re.search(step.pattern, worker.ask("GET", step.path).body.decode())
                    )
                continue
            theirs, ours = (self._ask(name, step) for name in ("apache", "ours"))
            known = DIFFERENT.get(step) if step.headers is None and step.body is None else None
            if known is not None:
                if (theirs[0], ours[0], json.loads(ours[2])["message"]) != known:
                    self.wrong.append(f"{step}: {theirs} and {ours} instead of {known}")
            elif theirs != ours:
                self.wrong.append(f"{step}\n    {theirs}\n    {ours}")

    def _ask(self, name: str, step: Ask) -> tuple[int, dict[str, str], str]:
        body = json.loads(json.dumps(step.body).replace("TARGET", self.servers[name])) if isinstance(step.body, dict) else step.body
        answer = self.workers[name].ask(step.method, step.path, body, step.headers)
        return answer.status, self._headers(answer), self._body(name, answer)

    def _headers(self, answer: Answer) -> dict[str, str]:
        found = {name: answer.headers[name] for name in COMPARED if name in answer.headers}
        if "location" in found:
            found["location"] = re.sub(r":\d+/", ":PORT/", found["location"])
        for name in ("allow", "access-control-allow-methods"):
            if name in found:
                found[name] = ",".join(sorted(found[name].split(",")))
        if answer.status >= 400:
            found.pop("content-type", None)  # Jersey's own refusals have none, Jetty's are HTML
        if answer.status == 400 and NOT_A_REQUEST.search(answer.body.decode()):
            return {}  # Jetty has not looked at it
        return found

    def _body(self, name: str, answer: Answer) -> str:
        text = answer.body.decode().replace(self.servers[name], "TARGET").replace(self.workers[name].address, "WORKER")
        if answer.status == 400 and NOT_A_REQUEST.search(text):
            return "not a request"
        try:
            body = json.loads(text)
        except ValueError:
            return ",".join(sorted(text.split(", ")))
        return json.dumps(_normal(body), sort_keys=True)


def _only_what_there_is(plugins: list[Any]) -> list[Any]:
    """Apache's converters are plugins, too."""
    return [one for one in plugins if not str(one.get("type")).endswith("converter")]


def _normal(body: Any) -> Any:
    if isinstance(body, dict) and "error_code" in body:
        return _error(body)
    if isinstance(body, dict) and "kafka_cluster_id" in body:
        return {**body, "commit": "COMMIT", "kafka_cluster_id": "ID"}
    if isinstance(body, dict) and "last_modified" in body:
        return {**body, "last_modified": body["last_modified"] is not None}
    if isinstance(body, dict) and isinstance(body.get("offsets"), list):
        return sorted(json.dumps(one, sort_keys=True) for one in body["offsets"])
    if isinstance(body, dict) and "configs" in body:
        return {**body, "configs": sorted(map(_normal, body["configs"]), key=json.dumps)}
    if isinstance(body, dict) and isinstance(body.get("tasks"), list):
        tasks = sorted(body["tasks"], key=lambda task: task.get("id", task.get("task")))
        return {name: _normal(value) for name, value in {**body, "tasks": tasks}.items()}
    if isinstance(body, dict):
        return {name: _normal(value) for name, value in body.items() if name not in ("version", "documentation")}
    if isinstance(body, list) and body and isinstance(body[0], dict) and "order_in_group" in body[0]:
        return sorted(map(_normal, body), key=lambda one: one["name"])
    if isinstance(body, list) and body and isinstance(body[0], dict) and "class" in body[0]:
        body = _only_what_there_is(body)
    return list(map(_normal, body)) if isinstance(body, list) else body


def _error(body: dict[str, Any]) -> Any:
    """Java prints the names of a map in an order of its own."""
    message = SHORTENED.sub(lambda match: match[3] or "", str(body["message"]))
    if NOT_OF_INTEREST.search(message):
        message = "JAVA"
    return {**body, "message": re.sub(r"\{[^{}]*\}", lambda match: str(sorted(match[0][1:-1].split(", "))), message)}


@contextmanager
def pair(folder: pathlib.Path) -> Iterator[Pair]:
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as one, EmbeddedCluster(config=BROKER) as other:
        make_topics(source.bootstrap_servers, {"t": 2})
        produce(source.bootstrap_servers, "t", 100, partitions=2)
        servers = {"apache": one.bootstrap_servers, "ours": other.bootstrap_servers}
        src = {name: {"name": "src", **SOURCE, **aliases(source.bootstrap_servers, target)} for name, target in servers.items()}
        with (
            apache_standalone(
                folder / "apache", worker_properties(folder / "apache", servers["apache"]) | HEADERS, [src["apache"]]
            ) as apache,
            our_standalone(folder / "ours", worker_properties(folder / "ours", servers["ours"]) | HEADERS, [src["ours"]]) as ours,
        ):
            workers = {"apache": apache, "ours": ours}
            for worker in workers.values():
                worker.until("it answers", worker.is_up)
            yield Pair(workers, servers)


def aliases(source: str, target: str) -> dict[str, str]:
    return {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": target,
    }


@pytest.mark.item("RE1", "RE2", "RU3")
def test_every_request_is_answered_as_by_apaches_worker(tmp_path: pathlib.Path) -> None:
    with pair(tmp_path) as both:
        source = both.workers["ours"].ask("GET", f"{SRC}/config").json()["source.cluster.bootstrap.servers"]
        for steps in (
            WHAT_THERE_IS,
            HTTP,
            CORS,
            BODIES,
            made(aliases(source, "TARGET")),
            odd(aliases(source, "TARGET")),
            validated(),
            transformed(aliases(source, "TARGET")),
            STATES,
            OFFSETS,
            LOGGERS,
        ):
            both.run(steps)
        assert not both.wrong, f"{len(both.wrong)} answers differ\n" + "\n".join(both.wrong)


def test_each_goes_on_with_the_others_file_of_offsets(tmp_path: pathlib.Path) -> None:
    """All end in good order, so nothing comes twice."""
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"t": 2})
        src = {"name": "src", **SOURCE, **aliases(a, b)}
        for number, start in enumerate((our_standalone, apache_standalone, our_standalone)):
            produce(a, "t", 100, partitions=2, first=100 * number)
            with start(tmp_path / str(number), worker_properties(tmp_path, b), [src]) as worker:
                worker.until("all is copied", lambda number=number: count_of(b, "A.t", 2) >= 100 * (number + 1))
                assert worker.stop() in (0, 143), worker.log[-4000:]
        assert count_of(b, "A.t", 2) == 300
