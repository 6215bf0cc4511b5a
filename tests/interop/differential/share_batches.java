import java.io.*;
import java.util.*;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

/**
 * Kafka's own combination of delivery states, driven by stdin: each line is `START|first,last,state,count ...|first,last,state,count ...`.
 * Prints for each line what becomes of the two lists, in the same form.
 */
public class share_batches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] parts = line.split("\\|", -1);
            for (PersisterStateBatch batch : new PersisterStateBatchCombiner(read(parts[1]), read(parts[2]), Long.parseLong(parts[0])).combineStateBatches())
                out.append(batch.firstOffset() + "," + batch.lastOffset() + "," + batch.deliveryState() + "," + batch.deliveryCount() + " ");
            out.append("\n");
        }
        System.out.print(out);
    }

    private static List<PersisterStateBatch> read(String text) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        for (String word : text.isBlank() ? new String[0] : text.trim().split(" ")) {
            String[] fields = word.split(",");
            batches.add(new PersisterStateBatch(Long.parseLong(fields[0]), Long.parseLong(fields[1]), Byte.parseByte(fields[2]), Short.parseShort(fields[3])));
        }
        return batches;
    }
}
