import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Runs test classes of JUnit: a file for the outcomes, a file of tests left out (`Class#method`), a
 * file of the only ones to run (or `-`), and the classes. An outcome is a line: test, number of the
 * run, passed, failed, skipped or left out, milliseconds, and the error with `\n` for its line ends.
 */
public final class KafkaClasses {
    private KafkaClasses() { }

    public static void main(String[] arguments) throws IOException {
        Set<String> leftOut = new HashSet<>(Files.readAllLines(Path.of(arguments[1])));
        Set<String> only = arguments[2].equals("-")
            ? Set.of()
            : new HashSet<>(Files.readAllLines(Path.of(arguments[2])));
        Set<String> found = new TreeSet<>();
        PostDiscoveryFilter filter = descriptor -> descriptor.getSource()
            .filter(source -> source instanceof MethodSource)
            .map(source -> name((MethodSource) source))
            .map(name -> {
                if (leftOut.contains(name)) {
                    found.add(name);
                    return FilterResult.excluded("left out");
                }
                return FilterResult.includedIf(only.isEmpty() || only.contains(name));
            })
            .orElse(FilterResult.included("not a method"));
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request()
            .filters(filter)
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter(
                "junit.jupiter.extensions.autodetection.exclude", "org.apache.kafka.*");
        for (String name : List.of(arguments).subList(3, arguments.length)) {
            request.selectors(DiscoverySelectors.selectClass(name));
        }
        LauncherDiscoveryRequest built = request.build();
        try (PrintStream file = new PrintStream(arguments[0], StandardCharsets.UTF_8)) {
            LauncherFactory.create().execute(built, new Outcomes(file));
            found.forEach(name -> file.println(name + "\t0\tleft out\t0\t"));
        }
        System.exit(0); // clients that a failed test has left open keep threads
    }

    private static String name(MethodSource source) {
        String type = source.getClassName();
        return type.substring(type.lastIndexOf('.') + 1) + "#" + source.getMethodName();
    }

    private static final class Outcomes implements TestExecutionListener {
        private final PrintStream file;
        private final Map<String, Long> beginnings = new HashMap<>();
        private final Map<String, Integer> runs = new HashMap<>();

        Outcomes(PrintStream file) {
            this.file = file;
        }

        @Override
        public void executionStarted(TestIdentifier test) {
            beginnings.put(test.getUniqueId(), System.currentTimeMillis());
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            write(test, "skipped", reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean isGood = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
            if (!test.isTest() && isGood) {
                return;
            }
            String state = switch (result.getStatus()) {
                case SUCCESSFUL -> "passed";
                case ABORTED -> "skipped";
                case FAILED -> "failed";
            };
            StringWriter error = new StringWriter();
            result.getThrowable().ifPresent(thrown -> thrown.printStackTrace(new PrintWriter(error)));
            write(test, state, error.toString());
        }

        private synchronized void write(TestIdentifier test, String state, String error) {
            String name = test.getSource()
                .filter(source -> source instanceof MethodSource)
                .map(source -> name((MethodSource) source))
                .orElse(test.getDisplayName());
            int number = runs.merge(name, 1, Integer::sum);
            long now = System.currentTimeMillis();
            long took = now - beginnings.getOrDefault(test.getUniqueId(), now);
            String line = error.replace("\t", "  ").replace("\n", "\\n");
            file.println(String.join(
                "\t", name, Integer.toString(number), state, Long.toString(took), line));
            file.flush();
        }
    }
}
