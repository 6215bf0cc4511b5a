import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Apache's transformations and predicates, asked line by line. Each line of stdin is JSON: a connector's properties, and records as
 * MirrorSourceTask makes them. Each gets one line: what becomes of the records behind the converters, or why the chain cannot be made.
 */
public class TransformChains {
    record Stage(Predicate<SourceRecord> predicate, boolean negate, Transformation<SourceRecord> transformation) { }

    static final ObjectMapper JSON = new ObjectMapper();

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
        List<Stage> stages = new ArrayList<>();
        try {
            for (String alias : props.get("transforms").split(",")) stages.add(stage(props, alias));
        } catch (Exception error) {
            return answer.put("config", String.valueOf(error.getMessage()));
        }
        HeaderConverter converter = new ByteArrayConverter();
        if (props.getOrDefault("header.converter", "").endsWith("SimpleHeaderConverter")) converter = new SimpleHeaderConverter();
        ArrayNode records = answer.putArray("records");
        for (JsonNode one : asked.get("records")) records.add(made(stages, converter, one));
        return answer;
    }

    @SuppressWarnings("unchecked")
    static Stage stage(Map<String, String> props, String alias) throws Exception {
        Map<String, String> own = below(props, "transforms." + alias + ".");
        Transformation<SourceRecord> transformation =
            (Transformation<SourceRecord>) Class.forName(own.get("type")).getDeclaredConstructor().newInstance();
        String predicateAlias = own.remove("predicate");
        String negate = own.remove("negate");
        transformation.configure(own);
        if (predicateAlias == null) return new Stage(null, false, transformation);
        Map<String, String> ofPredicate = below(props, "predicates." + predicateAlias + ".");
        Predicate<SourceRecord> predicate =
            (Predicate<SourceRecord>) Class.forName(ofPredicate.get("type")).getDeclaredConstructor().newInstance();
        predicate.configure(ofPredicate);
        return new Stage(predicate, Boolean.parseBoolean(negate), transformation);
    }

    static Map<String, String> below(Map<String, String> props, String prefix) {
        Map<String, String> found = new LinkedHashMap<>();
        props.forEach((name, value) -> { if (name.startsWith(prefix)) found.put(name.substring(prefix.length()), value); });
        return found;
    }

    static ObjectNode made(List<Stage> stages, HeaderConverter converter, JsonNode given) {
        ObjectNode answer = JSON.createObjectNode();
        String step = "TRANSFORMATION";
        try {
            SourceRecord record = record(given);
            for (Stage stage : stages) {
                if (stage.predicate == null || stage.negate ^ stage.predicate.test(record)) record = stage.transformation.apply(record);
                if (record == null) return answer.put("dropped", true);
            }
            step = "HEADER_CONVERTER";
            ArrayNode headers = JSON.createArrayNode();
            for (Header header : record.headers())
                headers.addArray().add(header.key())
                    .add(converter.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value()));
            ByteArrayConverter bytes = new ByteArrayConverter();
            step = "KEY_CONVERTER";
            answer.put("key", bytes.fromConnectData(record.topic(), record.keySchema(), record.key()));
            step = "VALUE_CONVERTER";
            answer.put("value", bytes.fromConnectData(record.topic(), record.valueSchema(), record.value()));
            answer.set("headers", headers);
            return answer.put("topic", record.topic()).put("partition", record.kafkaPartition()).put("timestamp", record.timestamp());
        } catch (Exception error) {
            ObjectNode failed = JSON.createObjectNode();
            failed.putArray("failed").add(step).add(error.getClass().getName()).add(error.getMessage());
            return failed;
        }
    }

    static SourceRecord record(JsonNode given) throws IOException {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode one : given.get("headers")) headers.addBytes(one.get(0).asText(), bytes(one.get(1)));
        return new SourceRecord(Map.of("topic", "t"), Map.of("offset", 1L), given.get("topic").asText(), given.get("partition").asInt(),
            Schema.OPTIONAL_BYTES_SCHEMA, bytes(given.get("key")), Schema.BYTES_SCHEMA, bytes(given.get("value")),
            given.get("timestamp").asLong(), headers);
    }

    static byte[] bytes(JsonNode given) throws IOException {
        return given.isNull() ? null : given.binaryValue();
    }
}
