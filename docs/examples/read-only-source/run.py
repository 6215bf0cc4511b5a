"""MirrorMaker 2 may read the source, and write nothing there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from scene import check, clusters, copied, counts, done, mirror_maker, texts, until

from kmirror import Security

FILE = Path(__file__).with_name("mm2.properties")

PASSWORD = "mirrors-password"
ALLOWED = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS),
    ResourceType.GROUP: (AclOperation.DESCRIBE,),
    ResourceType.BROKER: (AclOperation.DESCRIBE,),
}
SECURED = {
    "security": Security.sasl_plaintext({"owner": "owners-password", "mirror": PASSWORD}, mechanism="PLAIN"),
    "config": {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:owner",
    },
    "user": "owner",
}


def acl(kind, operation):
    name = "kafka-cluster" if kind is ResourceType.BROKER else "*"
    return AclBinding(kind, name, ResourcePatternType.LITERAL, "User:mirror", "*", operation, AclPermissionType.ALLOW)


with clusters("A", "B", A=SECURED) as (a, b):
    done(a.admin.create_acls([acl(kind, operation) for kind, operations in ALLOWED.items() for operation in operations]))
    for kind, operations in ALLOWED.items():
        shown = "CLUSTER" if kind is ResourceType.BROKER else kind.name
        print(f"at A, User:mirror may {', '.join(operation.name for operation in operations)} on {shown}")
    a.produce("orders", texts("order", 50))
    a.commit("shop", "orders", [50])
    with mirror_maker(FILE, [a, b], PASSWORD=PASSWORD):
        copied(a, "orders", b, "A.orders")
        until("the group follows", lambda: b.committed("shop", "A.orders") == [50])
        until("B has the topic of heartbeats", lambda: "heartbeats" in b.topics())
        print()
        counts(a, b)
        check(list(a.topics()) == ["orders"], "nothing was made at A")
        print(f"\nA has no topics but {', '.join(a.topics())}")
        print(f"B also has {', '.join(name for name in b.topics() if name not in b.data_topics())}")
        print(f"shop goes on at B's offset {b.committed('shop', 'A.orders')[0]}")
