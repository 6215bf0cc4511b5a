import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink that prints what it is given ("record sink TOPIC PARTITION OFFSET"). */
public final class TellingSinkConnector extends SinkConnector {
    public static final class TellingTask extends SinkTask {
        @Override
        public void start(Map<String, String> settings) {
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records)
                System.out.println("record sink " + record.topic() + " " + record.kafkaPartition() + " " + record.kafkaOffset());
            System.out.flush();
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }

    @Override
    public void start(Map<String, String> settings) {
    }

    @Override
    public Class<? extends Task> taskClass() {
        return TellingTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        return List.of(Map.of());
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }
}
