import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs several command line tools of Kafka in one JVM: a start of the JVM costs more than a tool.
 *
 * <p>Arguments: a file with one command per line (standard input file or "-", class, arguments;
 * separated by tabs) and a folder that receives N.out, N.err and N.code for each.
 */
public final class ToolRunner {
    private static final class Switch extends OutputStream {
        private OutputStream target = OutputStream.nullOutputStream();

        @Override
        public synchronized void write(int value) throws java.io.IOException {
            target.write(value);
        }

        @Override
        public synchronized void write(byte[] data, int start, int size)
                throws java.io.IOException {
            target.write(data, start, size);
        }

        synchronized void to(OutputStream next) {
            target = next;
        }
    }

    private static final class ExitError extends Error {}

    private static volatile int exitCode;

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[1]);
        Switch out = new Switch();
        Switch err = new Switch();
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Exit.setExitProcedure((code, message) -> {
            exitCode = exitCode < 0 ? code : exitCode;
            throw new ExitError();
        });
        Exit.setHaltProcedure((code, message) -> {
            exitCode = exitCode < 0 ? code : exitCode;
            throw new ExitError();
        });
        Exit.setShutdownHookAdder((name, hook) -> {});
        List<String> commands = Files.readAllLines(Path.of(arguments[0]));
        for (int number = 0; number < commands.size(); number++) {
            ByteArrayOutputStream outBytes = new ByteArrayOutputStream();
            ByteArrayOutputStream errBytes = new ByteArrayOutputStream();
            out.to(outBytes);
            err.to(errBytes);
            exitCode = -1;
            String[] parts = commands.get(number).split("\t");
            run(parts[0], parts[1], Arrays.copyOfRange(parts, 2, parts.length));
            System.out.flush();
            System.err.flush();
            Files.write(folder.resolve(number + ".out"), outBytes.toByteArray());
            Files.write(folder.resolve(number + ".err"), errBytes.toByteArray());
            Files.writeString(folder.resolve(number + ".code"), String.valueOf(Math.max(exitCode, 0)));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void run(String input, String tool, String[] arguments) throws Exception {
        InputStream before = System.in;
        if (!input.equals("-")) {
            System.setIn(new FileInputStream(input));
        }
        try {
            Class.forName(tool).getMethod("main", String[].class)
                    .invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof ExitError)) {
                failure.getCause().printStackTrace();
                exitCode = exitCode < 0 ? 1 : exitCode;
            }
        } finally {
            System.setIn(before);
        }
    }
}
