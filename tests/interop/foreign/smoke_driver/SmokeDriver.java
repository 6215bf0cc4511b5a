// The driver of Kafka's StreamsSmokeTest with a smaller load: SmokeTestDriver's own records and its
// own verification.
//
//     java SmokeDriver.java BROKERS KEYS RECORDS_PER_KEY SECONDS GUARANTEE
//
// Its verification of transactions fails if the application still writes when it looks: it asks for
// the ends first and for the last stable offsets afterwards. With 90 s of sending nobody is behind;
// here it waits until the input is committed and no output has grown for a while.

import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.tests.SmokeTestDriver;

public class SmokeDriver {
    static final String APPLICATION = "SmokeTest";
    static final int PARTITIONS = 5;
    static final long QUIET_MS = 4_000;
    static final long PATIENCE_MS = 120_000;

    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0];
        int keys = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        Duration time = Duration.ofSeconds(Long.parseLong(arguments[3]));
        boolean exactlyOnce = arguments[4].equals("exactly_once_v2");
        var data = SmokeTestDriver.generate(brokers, keys, records, time);
        if (exactlyOnce) {
            awaitTheLastTransaction(brokers);
        }
        SmokeTestDriver.verify(brokers, data, records, exactlyOnce);
    }

    static void awaitTheLastTransaction(String brokers) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", brokers);
        try (Admin admin = Admin.create(settings)) {
            long deadline = System.currentTimeMillis() + PATIENCE_MS;
            Map<TopicPartition, Long> before = Map.of();
            while (System.currentTimeMillis() < deadline) {
                Map<TopicPartition, Long> now = ends(admin);
                if (now.equals(before) && isCommitted(admin, now)) {
                    return;
                }
                before = now;
                Thread.sleep(QUIET_MS);
            }
            System.out.println("the application still writes after " + PATIENCE_MS + " ms");
        }
    }

    static Map<TopicPartition, Long> ends(Admin admin) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = Arrays.stream(SmokeTestDriver.topics())
            .flatMap(topic -> java.util.stream.IntStream.range(0, PARTITIONS)
                .mapToObj(partition -> new TopicPartition(topic, partition)))
            .collect(Collectors.toMap(partition -> partition, partition -> OffsetSpec.latest()));
        return admin.listOffsets(wanted).all().get().entrySet().stream()
            .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset()));
    }

    static boolean isCommitted(Admin admin, Map<TopicPartition, Long> ends) throws Exception {
        var committed = admin.listConsumerGroupOffsets(APPLICATION)
            .partitionsToOffsetAndMetadata().get();
        return ends.entrySet().stream()
            .filter(end -> end.getKey().topic().equals("data"))
            .allMatch(end -> committed.containsKey(end.getKey())
                && committed.get(end.getKey()).offset() == end.getValue());
    }
}
