import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Bootstrap servers and a topic with two partitions: transactions that commit, abort, carry offsets; then a second producer fences the first. */
public final class TransactionalProducers {
    static KafkaProducer<String, String> producer(String servers, String transactionalId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("transactional.id", transactionalId);
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        settings.put("max.block.ms", 20000);
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        producer.initTransactions();
        return producer;
    }

    static ConsumerGroupMetadata groupMetadata(String servers) {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "group.id", "java-group");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            return consumer.groupMetadata();
        }
    }

    static void send(KafkaProducer<String, String> producer, String topic, int partition, String value) {
        producer.send(new ProducerRecord<>(topic, partition, null, value));
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        ConsumerGroupMetadata metadata = groupMetadata(servers);
        KafkaProducer<String, String> first = producer(servers, "java-producer");
        first.beginTransaction();
        send(first, topic, 0, "committed-0");
        send(first, topic, 1, "committed-1");
        first.commitTransaction();

        first.beginTransaction();
        send(first, topic, 0, "aborted-0");
        first.flush();
        first.abortTransaction();

        first.beginTransaction();
        first.abortTransaction();

        first.beginTransaction();
        send(first, topic, 0, "committed-with-offsets");
        first.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(7, "seven")), metadata);
        first.commitTransaction();

        first.beginTransaction();
        first.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(9)), metadata);
        first.abortTransaction();

        first.beginTransaction();
        send(first, topic, 0, "of-the-fenced-producer");
        first.flush();
        KafkaProducer<String, String> second = producer(servers, "java-producer");
        try {
            send(first, topic, 0, "zombie");
            first.commitTransaction();
            System.out.println("the first producer was not fenced");
        } catch (KafkaException expected) {
            System.out.println("fenced: " + expected.getClass().getSimpleName());
        }
        second.beginTransaction();
        send(second, topic, 0, "committed-by-the-second");
        second.commitTransaction();
        second.close();
        first.close(java.time.Duration.ZERO);
        System.out.println("done");
    }
}
