package org.apache.kafka.connect.runtime.distributed;

import java.io.*;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import jakarta.ws.rs.core.HttpHeaders;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.runtime.TargetState;
import org.apache.kafka.connect.runtime.distributed.WorkerCoordinator.ConnectorsAndTasks;
import org.apache.kafka.connect.runtime.rest.InternalRequestSignature;
import org.apache.kafka.connect.storage.ClusterConfigState;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * What Apache's workers say to each other in their group, and what their leader assigns, asked line by line: words between tabs, the
 * first says what is asked; each line gets one. It stands in the package of the classes that it asks.
 */
public class ConnectGroupRules {
    static long now;
    static final Time TIME = (Time) Proxy.newProxyInstance(Time.class.getClassLoader(), new Class<?>[] {Time.class}, (proxy, method, arguments) -> now);
    static IncrementalCooperativeAssignor assignor;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                answer = answer(line.split("\t", -1));
            } catch (Throwable error) {
                answer = "error " + error.getMessage();
            }
            out.println(answer.replace('\n', ' ').replace('\r', ' '));
        }
        out.flush();
    }

    static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "metadata": return metadata(Short.parseShort(words[1]), hex(words[2]));
            case "assignment": return assignment(Short.parseShort(words[1]), hex(words[2]));
            case "sign": {
                Mac mac = Crypto.SYSTEM.mac(words[1]);
                mac.init(new SecretKeySpec(hex(words[2]), words[1]));
                return Base64.getEncoder().encodeToString(mac.doFinal(hex(words[3])));
            }
            case "signature": {
                Map<String, String> headers = new HashMap<>();
                if (!words[1].equals("-")) headers.put(InternalRequestSignature.SIGNATURE_ALGORITHM_HEADER, words[1]);
                if (!words[2].equals("-")) headers.put(InternalRequestSignature.SIGNATURE_HEADER, words[2]);
                HttpHeaders given = (HttpHeaders) Proxy.newProxyInstance(HttpHeaders.class.getClassLoader(), new Class<?>[] {HttpHeaders.class},
                    (proxy, method, arguments) -> headers.get((String) arguments[0]));
                InternalRequestSignature signature = InternalRequestSignature.fromHeaders(Crypto.SYSTEM, hex(words[3]), given);
                return signature == null ? "none" : signature.keyAlgorithm() + " " + signature.isValid(new SecretKeySpec(hex(words[4]), "HmacSHA256"));
            }
            case "offered": return offered(words[1]);
            case "config": {
                Map<String, String> props = new HashMap<>();
                for (String name : List.of("bootstrap.servers", "group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"))
                    props.put(name, "x:1");
                for (String name : List.of("key.converter", "value.converter"))
                    props.put(name, "org.apache.kafka.connect.converters.ByteArrayConverter");
                for (int i = 1; i + 1 < words.length; i += 2) props.put(words[i], words[i + 1]);
                DistributedConfig config = new DistributedConfig(props);
                return config.getString("connect.protocol") + " " + config.getInt("scheduled.rebalance.max.delay.ms") + " "
                    + config.getInternalRequestKeyGenerator().generateKey().getEncoded().length + " "
                    + config.getInternalRequestKeyGenerator().generateKey().getAlgorithm();
            }
            case "assignor": assignor = new IncrementalCooperativeAssignor(new LogContext(), TIME, Integer.parseInt(words[1])); return "";
            case "round": return round(words);
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static String metadata(short version, byte[] data) {
        ExtendedWorkerState state = IncrementalCooperativeConnectProtocol.deserializeMetadata(ByteBuffer.wrap(data));
        ByteBuffer again = version == 0 ? ConnectProtocol.serializeMetadata(state) : IncrementalCooperativeConnectProtocol.serializeMetadata(state, version == 2);
        ExtendedAssignment assignment = state.assignment() == ExtendedAssignment.empty() ? null : state.assignment();
        return state.url() + " " + state.offset() + " " + told(assignment) + " " + hex(again);
    }

    static String assignment(short version, byte[] data) {
        ExtendedAssignment assignment = IncrementalCooperativeConnectProtocol.deserializeAssignment(ByteBuffer.wrap(data));
        ByteBuffer again = version == 0 ? ConnectProtocol.serializeAssignment(assignment)
            : IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, version == 2);
        return told(assignment) + " " + hex(again);
    }

    static String told(ExtendedAssignment one) {
        if (one == null) return "null";
        return one.error() + " " + one.leader() + " " + one.leaderUrl() + " " + one.offset() + " " + one.connectors() + one.tasks()
            + one.revokedConnectors() + one.revokedTasks() + " " + one.delay();
    }

    static String offered(String protocol) {
        ExtendedWorkerState state = new ExtendedWorkerState("u", 1, null);
        boolean sessioned = protocol.equals("sessioned");
        return (protocol.equals("eager") ? ConnectProtocol.metadataRequest(state) : IncrementalCooperativeConnectProtocol.metadataRequest(state, sessioned))
            .stream().map(one -> one.name() + "=" + hex(ByteBuffer.wrap(one.metadata()))).collect(Collectors.joining(" "));
    }

    /** round now last-generation generation member=unit,unit;member= connector:tasks,connector:tasks */
    static String round(String[] words) {
        now = Long.parseLong(words[1]);
        Map<String, ConnectorsAndTasks> members = new HashMap<>();
        for (String member : words[4].split(";")) {
            List<String> connectors = new ArrayList<>();
            List<ConnectorTaskId> tasks = new ArrayList<>();
            for (String unit : member.substring(member.indexOf('=') + 1).split(",")) {
                int dash = unit.lastIndexOf('-');
                if (dash >= 0) tasks.add(new ConnectorTaskId(unit.substring(0, dash), Integer.parseInt(unit.substring(dash + 1))));
                else if (!unit.isEmpty()) connectors.add(unit);
            }
            members.put(member.substring(0, member.indexOf('=')), new ConnectorsAndTasks.Builder().with(connectors, tasks).build());
        }
        Map<String, Integer> counts = new HashMap<>();
        Map<String, Map<String, String>> configs = new HashMap<>();
        Map<String, TargetState> states = new HashMap<>();
        Map<ConnectorTaskId, Map<String, String>> tasks = new HashMap<>();
        for (String connector : words[5].split(",")) {
            if (connector.isEmpty()) continue;
            String name = connector.substring(0, connector.indexOf(':'));
            counts.put(name, Integer.parseInt(connector.substring(name.length() + 1)));
            configs.put(name, Map.of());
            states.put(name, TargetState.STARTED);
            for (int task = 0; task < counts.get(name); task++) tasks.put(new ConnectorTaskId(name, task), Map.of());
        }
        ClusterConfigState state = new ClusterConfigState(1, null, counts, configs, states, tasks, Map.of(), Map.of(), Map.of(), Set.of(), Set.of());
        IncrementalCooperativeAssignor.ClusterAssignment found = assignor.performTaskAssignment(state, Integer.parseInt(words[2]), Integer.parseInt(words[3]), members);
        StringBuilder text = new StringBuilder().append(assignor.delay);
        for (String member : new TreeSet<>(members.keySet())) {
            text.append(' ').append(member).append('=').append(joined(found.newlyAssignedConnectors(member), found.newlyAssignedTasks(member), false));
            text.append('/').append(joined(found.newlyRevokedConnectors(member), found.newlyRevokedTasks(member), true));
            text.append('/').append(joined(found.allAssignedConnectors().get(member), found.allAssignedTasks().get(member), true));
        }
        return text.toString();
    }

    static String joined(Collection<String> connectors, Collection<ConnectorTaskId> tasks, boolean sorted) {
        List<String> found = new ArrayList<>(sorted ? new TreeSet<>(connectors) : connectors);
        (sorted ? new TreeSet<>(tasks) : tasks).forEach(task -> found.add(task.toString()));
        return String.join(",", found);
    }

    static byte[] hex(String text) {
        return HexFormat.of().parseHex(text);
    }

    static String hex(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return HexFormat.of().formatHex(data);
    }
}
