import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.security.Permission;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the mains of many of Kafka's command line tools, one after the other, in this one JVM.
 *
 * Over stdin comes: the number of strings (int), then each as length (int) and UTF-8: class, standard input, arguments.
 * Over stdout goes: exit code (int), then standard output and standard error, each as length (int) and bytes.
 */
public class ToolDriver {
    static final class Exited extends Error {
        final int code;

        Exited(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    static final class Switch extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int value) {
            target.write(value);
        }

        @Override
        public synchronized void write(byte[] data, int from, int length) {
            target.write(data, from, length);
        }

        synchronized byte[] take() {
            byte[] taken = target.toByteArray();
            target = new ByteArrayOutputStream();
            return taken;
        }
    }

    /** Tools with argparse4j end the JVM themselves; that must not end ours. */
    @SuppressWarnings("removal")
    static final class NoExit extends SecurityManager {
        @Override
        public void checkExit(int code) {
            Exit.exit(code);
        }

        @Override
        public void checkPermission(Permission permission) { }

        @Override
        public void checkPermission(Permission permission, Object context) { }
    }

    @SuppressWarnings("removal")
    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Switch out = new Switch();
        Switch err = new Switch();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setShutdownHookAdder((name, hook) -> { });
        System.setSecurityManager(new NoExit());
        while (true) {
            int count;
            try {
                count = requests.readInt();
            } catch (EOFException end) {
                System.setSecurityManager(null);
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] words = new String[count];
            for (int index = 0; index < count; index++) {
                words[index] = new String(requests.readNBytes(requests.readInt()), StandardCharsets.UTF_8);
            }
            String[] given = new String[count - 2];
            System.arraycopy(words, 2, given, 0, given.length);
            System.setIn(new ByteArrayInputStream(words[1].getBytes(StandardCharsets.UTF_8)));
            int code = run(words[0], given);
            System.out.flush();
            System.err.flush();
            byte[] printed = out.take();
            byte[] complained = err.take();
            answers.writeInt(code);
            answers.writeInt(printed.length);
            answers.write(printed);
            answers.writeInt(complained.length);
            answers.write(complained);
            answers.flush();
        }
    }

    /** The code of the first exit that the tool asked for; a tool that catches it and exits again does not count twice. */
    private static int run(String mainClass, String[] given) {
        int[] first = {-1};
        Exit.setExitProcedure((code, message) -> {
            if (first[0] < 0)
                first[0] = code;
            throw new Exited(code);
        });
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) given);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace();
                return first[0] < 0 ? 1 : first[0];
            }
        } catch (ReflectiveOperationException absent) {
            absent.printStackTrace();
            return 127;
        }
        return Math.max(first[0], 0);
    }
}
