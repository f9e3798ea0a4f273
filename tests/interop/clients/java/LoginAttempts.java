import java.io.FileReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;

/** Logs in by each of the property files that a list names; prints what a user gets to see. */
public final class LoginAttempts {
    private static final int AT_ONCE = 6;

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<String>> outcomes = new ArrayList<>();
        for (String path : Files.readAllLines(Path.of(arguments[0]))) {
            outcomes.add(threads.submit(() -> outcome(path)));
        }
        for (Future<String> outcome : outcomes) {
            System.out.println("result\t" + outcome.get().replaceAll("\\s+", " "));
        }
        System.exit(0);
    }

    private static String outcome(String path) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(path)) {
            properties.load(file);
        }
        try (Admin admin = Admin.create(properties)) {
            admin.describeCluster(new DescribeClusterOptions()).nodes().get();
            return "in";
        } catch (Exception error) {
            return chain(error);
        }
    }

    /** The exception with its causes, without the shell that futures put around it. */
    private static String chain(Throwable error) {
        StringBuilder text = new StringBuilder();
        Throwable one = error instanceof java.util.concurrent.ExecutionException
                ? error.getCause() : error;
        for (int depth = 0; one != null && depth < 4; one = one.getCause(), depth++) {
            text.append(depth == 0 ? "" : " < ").append(one.getClass().getSimpleName());
            text.append(": ").append(one.getMessage());
        }
        return text.toString();
    }
}
