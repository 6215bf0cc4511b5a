package org.apache.kafka.connect.mirror;

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.Semaphore;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/**
 * Apache's MirrorMaker 2, asked line by line. Each line of stdin has words between tabs, the first says what is asked; each gets one
 * line. It stands in the package of the classes that it asks, since much of what decides there is not public.
 */
public class MirrorMakerRules {
    static class Store extends OffsetSyncStore {
        Store() { super(); }
        @Override void backingStoreStart() { }
        void sync(TopicPartition partition, long upstream, long downstream) {
            OffsetSync sync = new OffsetSync(partition, upstream, downstream);
            handleRecord(new ConsumerRecord<>("syncs", 0, 0, sync.recordKey(), sync.recordValue()));
        }
    }

    static final TopicPartition T0 = new TopicPartition("t", 0);
    static Store store = new Store();
    static OffsetSyncWriter.PartitionState state;
    static CheckpointStore checkpoints = new CheckpointStore(new HashMap<>());
    static Map<String, Map<TopicPartition, OffsetAndMetadata>> idle = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                answer = answer(line.split("\t", -1));
            } catch (Throwable error) {
                answer = "error " + String.valueOf(error.getMessage()).replace('\n', ' ');
            }
            out.println(answer);
        }
        out.flush();
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "policy": return policy(words);
            case "filter": return filter(words);
            case "replicate": return replicate(words);
            case "record": return record(words[1], hex(words[2]), hex(words[3]));
            case "store": store = new Store(); store.initializationMustReadToEnd = words[1].equals("last"); return "";
            case "end": store.readToEnd = true; return "";
            case "sync": store.sync(T0, Long.parseLong(words[1]), Long.parseLong(words[2])); return "";
            case "ask": {
                OptionalLong found = store.translateDownstream("g", T0, Long.parseLong(words[1]));
                return found.isPresent() ? String.valueOf(found.getAsLong()) : "null";
            }
            case "entries": {
                StringBuilder text = new StringBuilder();
                for (int i = 0; i < OffsetSyncStore.SYNCS_PER_PARTITION; i++)
                    text.append(store.syncFor(T0, i).upstreamOffset()).append(':').append(store.syncFor(T0, i).downstreamOffset()).append(' ');
                return text.toString().trim();
            }
            case "state": state = new OffsetSyncWriter.PartitionState(Long.parseLong(words[1])); return "";
            case "pair": {
                boolean due = state.update(Long.parseLong(words[1]), Long.parseLong(words[2]));
                if (due) state.reset();
                return String.valueOf(due);
            }
            case "checkpoints": checkpoints = new CheckpointStore(new HashMap<>()); idle = new HashMap<>(); return "";
            case "commit": return commit(words);
            case "idle":
                idle.computeIfAbsent("g", x -> new HashMap<>()).put(new TopicPartition(words[1], 0), new OffsetAndMetadata(Long.parseLong(words[2])));
                return "";
            case "groupoffsets": return sorted(task().syncGroupOffset().getOrDefault("g", Map.of()).entrySet().stream()
                .collect(Collectors.toMap(x -> x.getKey().toString(), x -> String.valueOf(x.getValue().offset()))));
            case "acl": return acl(words);
            case "config": return config(words);
            case "group": {
                DefaultGroupFilter filter = new DefaultGroupFilter();
                filter.configure(props(words, 2));
                return String.valueOf(filter.shouldReplicateGroup(words[1]));
            }
            case "tasks": return tasks(words);
            case "connector": return sorted(driver(words, 4).connectorBaseConfig(new SourceAndTarget(words[1], words[2]),
                Class.forName("org.apache.kafka.connect.mirror." + words[3])));
            case "worker": return sorted(driver(words, 3).workerConfig(new SourceAndTarget(words[1], words[2])));
            case "pairs": return driver(words, 1).clusterPairs().stream().map(Object::toString).sorted().collect(Collectors.joining(" "));
            case "client": return client(words);
            case "source": new MirrorSourceConfig(props(words, 1)); return "ok";
            case "checkpoint": new MirrorCheckpointConfig(props(words, 1)); return "ok";
            case "heartbeat": new MirrorHeartbeatConfig(props(words, 1)); return "ok";
            case "hops": {
                MirrorClient client = new MirrorClient(null, policy(words[1], "-", "-", "A"), Map.of());
                return client.countHopsForTopic(words[2], words[3]) + " " + new TreeSet<>(client.allSources(words[2])) + " " + client.isRemoteTopic(words[2]);
            }
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static ReplicationPolicy policy(String name, String separator, String internal, String alias) throws Exception {
        Map<String, Object> props = new HashMap<>();
        if (!separator.equals("-")) props.put("replication.policy.separator", separator);
        if (!internal.equals("-")) props.put("replication.policy.internal.topic.separator.enabled", internal);
        if (!alias.equals("-")) props.put("source.cluster.alias", alias);
        DefaultReplicationPolicy policy = (DefaultReplicationPolicy) Class.forName("org.apache.kafka.connect.mirror." + name).getConstructor().newInstance();
        policy.configure(props);
        return policy;
    }

    static String policy(String[] words) throws Exception {
        ReplicationPolicy policy = policy(words[1], words[2], words[3], words[4]);
        String topic = words[5];
        return String.join(",", policy.formatRemoteTopic("S", topic), policy.topicSource(topic), policy.upstreamTopic(topic), policy.originalTopic(topic),
            policy.isInternalTopic(topic) + "", policy.isHeartbeatsTopic(topic) + "", policy.isCheckpointsTopic(topic) + "",
            policy.isMM2InternalTopic(topic) + "", policy.offsetSyncsTopic(topic), policy.checkpointsTopic(topic));
    }

    static String filter(String[] words) {
        DefaultTopicFilter filter = new DefaultTopicFilter();
        filter.configure(Map.of("topics", words[1], "topics.exclude", words[2]));
        return String.valueOf(filter.shouldReplicateTopic(words[3]));
    }

    static String replicate(String[] words) throws Exception {
        DefaultTopicFilter filter = new DefaultTopicFilter();
        filter.configure(Map.of("topics", words[2]));
        MirrorSourceConnector connector = new MirrorSourceConnector(new SourceAndTarget("A", "B"), policy(words[1], "-", "-", "A"), filter,
            new DefaultConfigPropertyFilter());
        return connector.shouldReplicateTopic(words[3]) + " " + connector.isCycle(words[3]);
    }

    static MirrorSourceConnector connector(String policy, Map<String, String> props) throws Exception {
        DefaultTopicFilter topics = new DefaultTopicFilter();
        topics.configure(props);
        DefaultConfigPropertyFilter configs = new DefaultConfigPropertyFilter();
        configs.configure(props);
        return new MirrorSourceConnector(new SourceAndTarget("A", "B"), policy(policy, "-", "-", "A"), topics, configs);
    }

    /** Of policy, resource, name, pattern, operation and permission: the rule that is made of a rule, or "-". */
    static String acl(String[] words) throws Exception {
        MirrorSourceConnector connector = connector(words[1], Map.of("topics", "t.*, [*], B.t"));
        AclBinding rule = new AclBinding(new ResourcePattern(ResourceType.valueOf(words[2]), words[3], PatternType.valueOf(words[4])),
            new AccessControlEntry("User:u", "*", AclOperation.valueOf(words[5]), AclPermissionType.valueOf(words[6])));
        // As syncTopicAcls does it, which asks only for rules of topics.
        if (rule.pattern().resourceType() != ResourceType.TOPIC || rule.pattern().patternType() != PatternType.LITERAL
            || !connector.shouldReplicateTopic(rule.pattern().name()) || !connector.shouldReplicateAcl(rule))
            return "-";
        AclBinding made = connector.targetAclBinding(rule);
        return made.pattern().name() + " " + made.entry().operation() + " " + made.entry().permissionType();
    }

    /** Of a config's name, source, read-only and sensitive: what is kept of it for a topic that is there, and for a new one. */
    static String config(String[] words) throws Exception {
        MirrorSourceConnector connector = connector("DefaultReplicationPolicy", props(words, 5));
        ConfigEntry entry = new ConfigEntry(words[1], "7", ConfigEntry.ConfigSource.valueOf(words[2]), words[4].equals("true"),
            words[3].equals("true"), List.of(), ConfigEntry.ConfigType.STRING, "");
        StringBuilder kept = new StringBuilder();
        for (boolean incremental : new boolean[] {true, false})
            kept.append(!connector.targetConfig(new Config(List.of(entry)), incremental).entries().isEmpty()).append(' ');
        boolean isSet = !entry.isDefault() || connector.shouldReplicateSourceDefault(entry.name());
        return kept.append(isSet ? "SET" : "DELETE").toString();
    }

    /** Of tasks.max and a number of partitions, or groups: what each task is given. */
    static String tasks(String[] words) {
        int count = Integer.parseInt(words[3]);
        List<Map<String, String>> found;
        if (words[1].equals("source")) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (int i = 0; i < count; i++) partitions.add(new TopicPartition("t" + i % 3, i / 3));
            found = new MirrorSourceConnector(partitions, new MirrorSourceConfig(props(words, 4))).taskConfigs(Integer.parseInt(words[2]));
        } else {
            Set<String> groups = new LinkedHashSet<>();
            for (int i = 0; i < count; i++) groups.add("g" + i);
            found = new MirrorCheckpointConnector(groups, new MirrorCheckpointConfig(props(words, 4))).taskConfigs(Integer.parseInt(words[2]));
        }
        return found.stream().map(x -> x.getOrDefault("task.assigned.partitions", x.get("task.assigned.groups")) + " " + x.get("task.index"))
            .collect(Collectors.joining("; "));
    }

    static String record(String kind, byte[] key, byte[] value) {
        ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>("x", 0, 0, key, value);
        switch (kind) {
            case "Heartbeat": { Heartbeat it = Heartbeat.deserializeRecord(record); return it + "|" + text(it.recordKey()) + "|" + text(it.recordValue()); }
            case "Checkpoint": { Checkpoint it = Checkpoint.deserializeRecord(record); return it + "|" + text(it.recordKey()) + "|" + text(it.recordValue()); }
            default: { OffsetSync it = OffsetSync.deserializeRecord(record); return it + "|" + text(it.recordKey()) + "|" + text(it.recordValue()); }
        }
    }

    static MirrorCheckpointTask task() {
        return new MirrorCheckpointTask("A", "B", new DefaultReplicationPolicy(), store, Set.of("g"), idle, checkpoints);
    }

    static String commit(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(new TopicPartition("t", 0), new OffsetAndMetadata(Long.parseLong(words[1]), "m"));
        Map<TopicPartition, Checkpoint> found = task().checkpointsForGroup(offsets, "g");
        checkpoints.update("g", found);
        return found.values().toString();
    }

    static MirrorMakerConfig driver(String[] words, int from) {
        return new MirrorMakerConfig(props(words, from));
    }

    static String client(String[] words) {
        MirrorSourceConfig config = new MirrorSourceConfig(props(words, 3));
        Map<String, Object> found;
        switch (words[1] + words[2]) {
            case "sourceproducer": found = config.sourceProducerConfig("r"); break;
            case "sourceconsumer": found = config.sourceConsumerConfig("r"); break;
            case "sourceadmin": found = config.sourceAdminConfig("r"); break;
            case "targetproducer": found = config.targetProducerConfig("r"); break;
            case "targetconsumer": found = config.targetConsumerConfig("r"); break;
            default: found = config.targetAdminConfig("r");
        }
        return sorted(found);
    }

    static Map<String, String> props(String[] words, int from) {
        Map<String, String> props = new HashMap<>();
        for (int i = from; i < words.length; i++) {
            int at = words[i].indexOf('=');
            props.put(words[i].substring(0, at), words[i].substring(at + 1));
        }
        return props;
    }

    static String sorted(Map<String, ?> props) {
        return new TreeMap<>(props).entrySet().stream().map(x -> x.getKey() + "=" + x.getValue()).collect(Collectors.joining("\t"));
    }

    static byte[] hex(String text) {
        byte[] data = new byte[text.length() / 2];
        for (int i = 0; i < data.length; i++) data[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        return data;
    }

    static String text(byte[] data) {
        StringBuilder out = new StringBuilder();
        for (byte b : data) out.append(String.format("%02x", b));
        return out.toString();
    }
}
