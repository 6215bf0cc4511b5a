import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Bootstrap servers and a group id. Lines of standard input open and close its members: "open NAME PROTOCOL TOPIC [INSTANCE]" and
 * "close NAME". PROTOCOL is "consumer", "classic", or "classic:" and the class of an assignor; a topic that begins with "re:" is a
 * pattern. Lines of output are records ("record NAME TOPIC PARTITION OFFSET"), assignments
 * ("assignment NAME t-0,t-1") and errors. Members end with the input.
 */
public final class GroupConsumers {
    static final class Member extends Thread {
        final String name;
        final KafkaConsumer<String, String> consumer;
        volatile boolean closing = false;

        Member(String servers, String group, String[] words) {
            this.name = words[1];
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", servers);
            settings.put("group.id", group);
            settings.put("client.id", name);
            String[] protocol = words[2].split(":");
            settings.put("group.protocol", protocol[0]);
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", false);
            settings.put("metadata.max.age.ms", 1000);
            if (words.length > 4) settings.put("group.instance.id", words[4]);
            if (protocol[0].equals("classic")) {
                settings.put("heartbeat.interval.ms", 200);
                settings.put("session.timeout.ms", 6000);
                String all = "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
                settings.put("partition.assignment.strategy", protocol.length > 1 ? protocol[1] : all);
            }
            this.consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            if (words[3].startsWith("re:")) consumer.subscribe(new SubscriptionPattern(words[3].substring(3)));
            else consumer.subscribe(List.of(words[3]));
        }

        @Override
        public void run() {
            String shown = "";
            try {
                while (!closing) {
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                        say("record " + name + " " + record.topic() + " " + record.partition() + " " + record.offset());
                    try {
                        if (!consumer.assignment().isEmpty()) consumer.commitSync();
                    } catch (RebalanceInProgressException error) {
                        // a cooperative member keeps what it has, and commits after the next poll
                    }
                    TreeSet<String> assignment = new TreeSet<>();
                    consumer.assignment().forEach(each -> assignment.add(each.toString()));
                    String now = String.join(",", assignment);
                    if (!now.equals(shown)) say("assignment " + name + " " + now);
                    shown = now;
                }
            } catch (Exception error) {
                say("error " + name + " " + error);
            } finally {
                consumer.close();
                say("closed " + name);
            }
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Member> members = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("open")) {
                Member member = new Member(arguments[0], arguments[1], words);
                members.put(words[1], member);
                member.start();
            } else {
                members.remove(words[1]).closing = true;
            }
        }
        for (Member member : members.values()) member.closing = true;
        for (Member member : members.values()) member.join();
    }
}
