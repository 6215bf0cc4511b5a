import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.TopicCreation;
import org.apache.kafka.connect.util.TopicCreationGroup;

/**
 * Apache's groups of topic.creation.*, asked line by line. Each line of stdin is JSON: a connector's properties, whether the worker makes
 * topics, and names of topics. Each gets one line: the topic that would be made for each name, or why the properties are refused.
 */
public class TopicCreationGroups {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Plugins PLUGINS = new Plugins(Map.of("plugin.discovery", "service_load"));

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        out.flush();
    }

    static ObjectNode answer(JsonNode asked) {
        ObjectNode answer = JSON.createObjectNode();
        Map<String, String> props = new LinkedHashMap<>();
        asked.get("props").properties().forEach(one -> props.put(one.getKey(), one.getValue().asText()));
        boolean enabled = asked.get("enabled").asBoolean();
        try {
            SourceConnectorConfig config = new SourceConnectorConfig(PLUGINS, props, enabled);
            TopicCreation creation = TopicCreation.newTopicCreation(worker(enabled),
                config.usesTopicCreation() ? TopicCreationGroup.configuredGroups(config) : null);
            for (JsonNode name : asked.get("topics")) {
                if (!creation.isTopicCreationEnabled()) answer.put(name.asText(), "-");
                else answer.put(name.asText(), text(creation.findFirstGroup(name.asText()), name.asText()));
            }
        } catch (Exception error) {
            return JSON.createObjectNode().put("refused", error.getMessage());
        }
        return answer;
    }

    static String text(TopicCreationGroup group, String name) {
        NewTopic topic = group.newTopic(name);
        return group.name() + " " + topic.numPartitions() + " " + topic.replicationFactor() + " " + new TreeMap<>(topic.configs());
    }

    static StandaloneConfig worker(boolean enabled) {
        String bytes = "org.apache.kafka.connect.converters.ByteArrayConverter";
        return new StandaloneConfig(Map.of("bootstrap.servers", "localhost:9", "offset.storage.file.filename", "none", "key.converter", bytes,
            "value.converter", bytes, "topic.creation.enable", String.valueOf(enabled)));
    }
}
