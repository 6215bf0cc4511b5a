import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Asks Apache's utilities about one cluster: its servers, a source's alias, a cluster that is not there, and groups. */
public class RemoteClusters {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> props = new HashMap<>();
        props.put("bootstrap.servers", arguments[0]);
        String alias = arguments[1];
        System.out.println("hops " + RemoteClusterUtils.replicationHops(props, alias));
        System.out.println("hops-of-nobody " + RemoteClusterUtils.replicationHops(props, arguments[2]));
        System.out.println("heartbeats " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(props)));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(props)));
        System.out.println("upstreams " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(props)));
        try (MirrorClient client = new MirrorClient(props)) {
            System.out.println("remote-topics " + new TreeSet<>(client.remoteTopics()));
            System.out.println("remote-topics-of " + new TreeSet<>(client.remoteTopics(alias)));
        }
        for (int i = 3; i < arguments.length; i++) {
            Map<TopicPartition, OffsetAndMetadata> found =
                RemoteClusterUtils.translateOffsets(props, alias, arguments[i], Duration.ofSeconds(30));
            Map<String, String> sorted = new TreeMap<>();
            found.forEach((partition, offset) -> sorted.put(partition.toString(), offset.offset() + "/" + offset.metadata()));
            System.out.println("group " + arguments[i] + " " + sorted);
        }
    }
}
