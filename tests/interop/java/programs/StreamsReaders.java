import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * Two Kafka Streams applications that read one topic, at least once and exactly once: bootstrap servers, topic, folder for their state.
 * Lines of output are records ("record GUARANTEE TOPIC PARTITION OFFSET"). Ends when its input ends.
 */
public final class StreamsReaders {
    static final class Tell extends ContextualProcessor<String, String, Void, Void> {
        final String guarantee;

        Tell(String guarantee) {
            this.guarantee = guarantee;
        }

        @Override
        public void process(Record<String, String> record) {
            context().recordMetadata().ifPresent(at -> say("record " + guarantee + " " + at.topic() + " " + at.partition() + " " + at.offset()));
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static KafkaStreams start(String servers, String topic, String folder, String guarantee) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, guarantee);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder + "/" + guarantee);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("consumer.metadata.max.age.ms", 1000);
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic).process(() -> new Tell(guarantee));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        return streams;
    }

    public static void main(String[] arguments) throws Exception {
        List<KafkaStreams> started = new ArrayList<>();
        for (String guarantee : List.of("at_least_once", "exactly_once_v2")) {
            started.add(start(arguments[0], arguments[1], arguments[2], guarantee));
        }
        while (System.in.read() != -1) {
            continue;
        }
        started.forEach(KafkaStreams::close);
    }
}
