import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Calls of Java's producers and consumers, one at a time. A line of input is a JSON list: the call, the client's name, the arguments
 * (tests/support/clients/client_calls.py makes the same calls of ours). A line of output is "= ", the call's number and its result as JSON; an error is {"error": its name in
 * the protocol or its class, "message": its text}. A KafkaException with a cause counts as its cause. Bytes are strings of Latin-1.
 */
public final class ClientCalls {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration TURN = Duration.ofMillis(20);
    static final long PATIENCE_MS = 60_000;
    static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();
    static final Map<String, KafkaConsumer<byte[], byte[]>> CONSUMERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        int number = 0;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode call = JSON.readTree(line);
            Object result;
            try {
                result = perform(call.get(0).asText(), call.get(1), call);
            } catch (Throwable error) {
                result = failure(error);
            }
            System.out.println("= " + ++number + " " + JSON.writeValueAsString(result));
            System.out.flush();
        }
        for (KafkaProducer<byte[], byte[]> each : PRODUCERS.values()) each.close(Duration.ZERO);
        System.exit(0);
    }

    static Object failure(Throwable error) {
        if (error instanceof ExecutionException) error = error.getCause();
        String text = String.valueOf(error.getMessage());
        if (error.getClass() == KafkaException.class && error.getCause() != null) {
            error = error.getCause();
            text = text.startsWith("Failed to construct") ? error.getMessage() : text + ": " + error.getMessage();
        }
        Errors known = Errors.forException(error);
        boolean isOf = known.exception() != null && known.exception().getClass() == error.getClass();
        String name = isOf ? known.name() : error.getClass().getSimpleName();
        return Map.of("error", name, "message", text);
    }

    static Object perform(String call, JsonNode name, JsonNode words) throws Exception {
        switch (call) {
            case "producer":
                PRODUCERS.put(name.asText(), new KafkaProducer<>(settings(words.get(2)), new ByteArraySerializer(), new ByteArraySerializer()));
                return null;
            case "consumer":
                CONSUMERS.put(name.asText(), new KafkaConsumer<>(settings(words.get(2)), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
                return null;
            case "settle":
                return settle(name, words.get(2).asInt());
            default:
                if (PRODUCERS.containsKey(name.asText())) return produce(call, name.asText(), words);
                return consume(call, name.asText(), words);
        }
    }

    static Object produce(String call, String name, JsonNode words) throws Exception {
        KafkaProducer<byte[], byte[]> producer = PRODUCERS.get(name);
        switch (call) {
            case "send":
                return send(producer, words.get(2), true);
            case "offer":
                return send(producer, words.get(2), false);
            case "init_transactions":
                producer.initTransactions();
                return null;
            case "begin_transaction":
                producer.beginTransaction();
                return null;
            case "send_offsets_to_transaction":
                ConsumerGroupMetadata group = words.get(3).isTextual() && CONSUMERS.containsKey(words.get(3).asText())
                    ? CONSUMERS.get(words.get(3).asText()).groupMetadata() : metadata(words.get(3));
                producer.sendOffsetsToTransaction(offsets(words.get(2)), group);
                return null;
            case "commit_transaction":
                producer.commitTransaction();
                return null;
            case "abort_transaction":
                producer.abortTransaction();
                return null;
            case "flush":
                producer.flush();
                return null;
            case "partitions_for":
                return infos(producer.partitionsFor(words.get(2).asText()));
            case "close":
                producer.close(words.size() > 2 ? Duration.ofMillis(words.get(2).asLong()) : Duration.ofMillis(Long.MAX_VALUE));
                return null;
            default:
                throw new IllegalArgumentException("a producer has no call " + call);
        }
    }

    static ConsumerGroupMetadata metadata(JsonNode words) {
        if (words.isTextual()) return new ConsumerGroupMetadata(words.asText());
        return new ConsumerGroupMetadata(words.get(0).asText(), words.get(1).asInt(), words.get(2).asText(), java.util.Optional.empty());
    }

    /** Without `flushed`, only what was refused at once is told. */
    static Object send(KafkaProducer<byte[], byte[]> producer, JsonNode rows, boolean flushed) {
        List<Object> outcomes = new ArrayList<>();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        List<Object> refused = new ArrayList<>();
        for (JsonNode row : rows) {
            Future<RecordMetadata> future = null;
            Object error = null;
            try {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    row.get(0).asText(), row.get(1).isNull() ? null : row.get(1).asInt(), row.get(2).isNull() ? null : row.get(2).asLong(),
                    bytes(row.get(3)), bytes(row.get(4)));
                if (row.size() > 5) for (JsonNode header : row.get(5)) record.headers().add(header.get(0).asText(), bytes(header.get(1)));
                future = producer.send(record);
            } catch (Exception thrown) {
                error = failure(thrown);
            }
            sent.add(future);
            refused.add(error);
        }
        if (!flushed) return refused;
        producer.flush();
        for (int number = 0; number < sent.size(); number++) {
            try {
                if (sent.get(number) == null) {
                    outcomes.add(refused.get(number));
                } else {
                    RecordMetadata written = sent.get(number).get();
                    outcomes.add(List.of(written.topic(), written.partition(), written.offset(), written.timestamp()));
                }
            } catch (Exception error) {
                outcomes.add(failure(error));
            }
        }
        return outcomes;
    }

    static Object consume(String call, String name, JsonNode words) throws Exception {
        KafkaConsumer<byte[], byte[]> consumer = CONSUMERS.get(name);
        JsonNode given = words.get(2);
        switch (call) {
            case "assign":
                consumer.assign(partitions(given));
                return null;
            case "subscribe":
                consumer.subscribe(strings(given));
                return null;
            case "unsubscribe":
                consumer.unsubscribe();
                return null;
            case "assignment":
                return names(consumer.assignment());
            case "subscription":
                return consumer.subscription().stream().sorted().toList();
            case "poll":
                return poll(consumer, given.asInt());
            case "poll_once":
                return records(consumer, Duration.ofMillis(given.asInt()));
            case "seek":
                consumer.seek(partition(given), new OffsetAndMetadata(words.get(3).asLong()));
                return null;
            case "seek_to_beginning":
                consumer.seekToBeginning(partitions(given));
                return null;
            case "seek_to_end":
                consumer.seekToEnd(partitions(given));
                return null;
            case "position":
                return consumer.position(partition(given));
            case "pause":
                consumer.pause(partitions(given));
                return null;
            case "resume":
                consumer.resume(partitions(given));
                return null;
            case "paused":
                return names(consumer.paused());
            case "current_lag":
                return consumer.currentLag(partition(given)).isPresent() ? consumer.currentLag(partition(given)).getAsLong() : null;
            case "commit":
                if (given.isNull()) consumer.commitSync(); else consumer.commitSync(offsets(given));
                return null;
            case "committed":
                return committed(consumer.committed(new java.util.HashSet<>(partitions(given))));
            case "beginning_offsets":
                return named(consumer.beginningOffsets(partitions(given)));
            case "end_offsets":
                return named(consumer.endOffsets(partitions(given)));
            case "offsets_for_times":
                return times(consumer, given);
            case "partitions_for":
                return infos(consumer.partitionsFor(given.asText()));
            case "list_topics":
                Map<String, Object> found = new TreeMap<>();
                consumer.listTopics().forEach((topic, rows) -> found.put(topic, infos(rows)));
                return found;
            case "group_metadata":
                return List.of(consumer.groupMetadata().groupId(), consumer.groupMetadata().generationId());
            case "close":
                consumer.close();
                return null;
            default:
                throw new IllegalArgumentException("a consumer has no call " + call);
        }
    }

    static List<List<Object>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<List<Object>> found = new ArrayList<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (found.size() < count && System.currentTimeMillis() < end) found.addAll(records(consumer, Duration.ofMillis(200)));
        return found;
    }

    static List<List<Object>> records(KafkaConsumer<byte[], byte[]> consumer, Duration wait) {
        List<List<Object>> found = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : consumer.poll(wait)) {
            List<Object> headers = new ArrayList<>();
            for (Header header : record.headers()) {
                List<Object> pair = new ArrayList<>();
                pair.add(header.key());
                pair.add(text(header.value()));
                headers.add(pair);
            }
            List<Object> row = new ArrayList<>(List.of(record.topic(), record.partition(), record.offset(), record.timestamp(),
                record.timestampType().toString(), headers, record.leaderEpoch().orElse(-1)));
            row.add(text(record.key()));
            row.add(text(record.value()));
            found.add(row);
        }
        return found;
    }

    /** Polls the members in turn until each owns something, together `total` partitions, and nothing has moved for some rounds. */
    static Object settle(JsonNode members, int total) {
        Map<String, List<String>> owned = new TreeMap<>();
        int quiet = 0;
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (quiet < 10 && System.currentTimeMillis() < end) {
            Map<String, List<String>> now = new TreeMap<>();
            for (JsonNode name : members) {
                KafkaConsumer<byte[], byte[]> consumer = CONSUMERS.get(name.asText());
                consumer.poll(TURN);
                now.put(name.asText(), names(consumer.assignment()));
            }
            boolean complete = now.values().stream().mapToInt(List::size).sum() == total && now.values().stream().noneMatch(List::isEmpty);
            quiet = complete && now.equals(owned) ? quiet + 1 : 0;
            owned = now;
        }
        return owned;
    }

    static Map<String, Object> settings(JsonNode given) {
        Map<String, Object> settings = new HashMap<>();
        given.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        return settings;
    }

    static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : text.asText().getBytes(StandardCharsets.ISO_8859_1);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.ISO_8859_1);
    }

    static List<String> strings(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asText()));
        return found;
    }

    static TopicPartition partition(JsonNode pair) {
        return new TopicPartition(pair.get(0).asText(), pair.get(1).asInt());
    }

    static List<TopicPartition> partitions(JsonNode list) {
        List<TopicPartition> found = new ArrayList<>();
        list.forEach(each -> found.add(partition(each)));
        return found;
    }

    static List<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().toList();
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode rows) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (JsonNode row : rows)
            found.put(partition(row), new OffsetAndMetadata(row.get(2).asLong(), row.size() > 3 ? row.get(3).asText() : ""));
        return found;
    }

    static Map<String, Object> named(Map<TopicPartition, Long> offsets) {
        Map<String, Object> found = new TreeMap<>();
        offsets.forEach((partition, offset) -> found.put(partition.toString(), offset));
        return found;
    }

    static Map<String, Object> committed(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Object> found = new TreeMap<>();
        offsets.forEach((partition, each) -> found.put(partition.toString(),
            each == null ? null : List.of(each.offset(), each.leaderEpoch().orElse(-1), each.metadata())));
        return found;
    }

    static Map<String, Object> times(KafkaConsumer<byte[], byte[]> consumer, JsonNode rows) {
        Map<TopicPartition, Long> asked = new HashMap<>();
        for (JsonNode row : rows) asked.put(partition(row), row.get(2).asLong());
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<TopicPartition, OffsetAndTimestamp> entry : consumer.offsetsForTimes(asked).entrySet()) {
            OffsetAndTimestamp each = entry.getValue();
            found.put(entry.getKey().toString(),
                each == null ? null : List.of(each.offset(), each.timestamp(), each.leaderEpoch().orElse(-1)));
        }
        return found;
    }

    static Object infos(List<PartitionInfo> rows) {
        List<List<Object>> found = new ArrayList<>();
        for (PartitionInfo row : rows) found.add(List.of(row.topic(), row.partition(), row.leader() == null ? -1 : row.leader().id(),
            row.replicas().length, row.inSyncReplicas().length));
        found.sort((left, right) -> Integer.compare((int) left.get(1), (int) right.get(1)));
        return found;
    }
}
