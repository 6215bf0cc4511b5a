import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

/** Java's reading of files of properties, asked line by line: each line of stdin is a file in hexadecimal. */
public class PropertiesFiles {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        StringBuilder answers = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) answers.append(answer(HEX.parseHex(line))).append("\n");
        System.out.print(answers);
    }

    static String answer(byte[] file) throws IOException {
        Properties read = new Properties();
        try {
            read.load(new ByteArrayInputStream(file));
        } catch (IllegalArgumentException error) {
            return "refused";
        }
        List<String> found = new ArrayList<>();
        read.forEach((name, value) -> { if (!name.equals("")) found.add(hex(name) + "=" + hex(value)); });
        Collections.sort(found);
        return String.join(";", found);
    }

    static String hex(Object text) {
        return HEX.formatHex(((String) text).getBytes(StandardCharsets.UTF_16BE));
    }
}
