"""Three clusters, with a flow between each two."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from scene import check, clusters, mirror_maker, table, texts, until

FILE = Path(__file__).with_name("mm2.properties")

with clusters("us-west", "us-east", "eu") as everywhere:
    for cluster in everywhere:
        cluster.produce("topic1", texts(f"made in {cluster.alias}", 10))
    with mirror_maker(FILE, everywhere):

        def complete() -> bool:
            return all(
                len(names := cluster.data_topics()) == 5 and all(cluster.count(name) == 10 for name in names) for cluster in everywhere
            )

        until("each cluster has five topics of ten records", complete)
        everywhere[0].produce("topic1", ["one more"])
        until("it is everywhere", lambda: [sum(map(one.count, one.data_topics())) for one in everywhere] == [51, 52, 52])
        for cluster in everywhere:
            names = cluster.data_topics()
            check(all(cluster.alias not in name for name in names), "nothing comes back to where it began")
            check(all(len(set(path := name.split("."))) == len(path) for name in names), "no alias is in a name twice")
            print(f"{cluster.alias}: {', '.join(names)}")

        print("\na consumer in eu that subscribes to")
        rows = []
        for pattern, count in (("^.*topic1", 52), (r"^([^.]+\.)?topic1", 31)):
            read = everywhere[2].consume(f"reads {pattern}", pattern, count)
            rows.append((pattern, len(read), len({record.value for record in read})))
        table(("pattern", "reads records", "different ones"), *rows)
