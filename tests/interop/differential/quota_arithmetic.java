import java.io.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.metrics.stats.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Kafka's own sensors, driven by a script on stdin. The first line is `rate|bucket BOUND SAMPLES`, each other line `TIME_MS VALUE`.
 * Prints for each of these the throttle time that follows, 0 for none, and the metric's value.
 */
public class quota_arithmetic {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        String[] head = in.readLine().split(" ");
        boolean bucket = head[0].equals("bucket");
        double bound = Double.parseDouble(head[1]);
        Metrics metrics = new Metrics(Time.SYSTEM);
        MetricConfig config = new MetricConfig().timeWindow(1, TimeUnit.SECONDS).samples(Integer.parseInt(head[2])).quota(new Quota(bound, true));
        Sensor sensor = metrics.sensor("s");
        var name = metrics.metricName("m", "g");
        sensor.add(name, bucket ? new TokenBucket() : new Rate(), config);
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split(" ");
            long now = Long.parseLong(parts[0]);
            long throttle = 0;
            try {
                sensor.record(Double.parseDouble(parts[1]), now, true);
            } catch (QuotaViolationException e) {
                throttle = bucket ? Math.round(-e.value() / e.bound() * 1000) : QuotaUtils.throttleTime(e, now);
            }
            System.out.println(throttle + " " + metrics.metric(name).measurable().measure(config, now));
        }
    }
}
