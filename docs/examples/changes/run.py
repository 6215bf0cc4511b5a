"""What changes at the source while MirrorMaker 2 runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions, ResourceType
from scene import check, clusters, copied, done, mirror_maker, texts, until

FILE = Path(__file__).with_name("mm2.properties")


def own_settings(cluster, topic):
    (future,) = cluster.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in future.result().items() if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value}


def set_config(cluster, topic, name, value):
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    done(cluster.admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))


with clusters("A", "B") as (a, b):
    a.make("orders", partitions=2, config={"retention.ms": "86400000", "min.insync.replicas": "1"})
    a.produce("orders", texts("order", 20), partitions=2)
    with mirror_maker(FILE, [a, b]):
        copied(a, "orders", b, "A.orders")
        print(f"orders is copied: {b.topics()['A.orders']} partitions, {own_settings(b, 'A.orders')}")

        set_config(a, "orders", "retention.ms", "3600000")
        until("the setting follows", lambda: own_settings(b, "A.orders") == {"retention.ms": "3600000"})
        print(f"A changes a setting: {own_settings(b, 'A.orders')}")

        done(a.admin.create_partitions([NewPartitions("orders", 4)]))
        until("partitions follow", lambda: b.topics()["A.orders"] == 4)
        a.produce("orders", texts("order", 20, first=21), partitions=4)
        copied(a, "orders", b, "A.orders")
        print(f"A adds partitions: {b.topics()['A.orders']} partitions with {b.count('A.orders')} records")

        a.produce("temporary", ["of no interest"])
        a.produce("parcels", texts("parcel", 30))
        copied(a, "parcels", b, "A.parcels")
        print(f"A makes topics: B has {', '.join(b.data_topics())}; A.parcels has {b.count('A.parcels')} records, from the first one on")

        done(a.admin.delete_topics(["orders"]))
        until("it is gone", lambda: "orders" not in a.topics())
        a.produce("parcels", texts("parcel", 30, first=31))
        copied(a, "parcels", b, "A.parcels")
        check(b.count("A.orders") == 40, "the copy stays")
        print(f"A deletes orders: A.orders stays, with {b.count('A.orders')} records")
