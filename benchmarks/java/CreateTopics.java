import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;

/**
 * Creates topics with one call and waits until every partition has a leader.
 *
 * Arguments: bootstrap namePrefix topics partitions [key=value ...]; a count of one keeps the name as it is.
 */
public final class CreateTopics {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        int partitions = Integer.parseInt(arguments[3]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("request.timeout.ms", "60000");
        properties.put("default.api.timeout.ms", "120000");
        java.util.Map<String, String> configs = new java.util.HashMap<>();
        for (int i = 4; i < arguments.length; i++) {
            configs.put(arguments[i].split("=")[0], arguments[i].split("=")[1]);
        }
        List<String> names = new ArrayList<>();
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            names.add(count == 1 ? arguments[1] : arguments[1] + "-" + i);
            topics.add(new NewTopic(names.get(i), partitions, (short) 1).configs(configs));
        }
        try (Admin admin = Admin.create(properties)) {
            // Connects and learns the API versions before the clock starts.
            admin.describeCluster().nodes().get();
            long start = System.nanoTime();
            admin.createTopics(topics).all().get();
            double created = (System.nanoTime() - start) / 1e6;
            while (!allHaveLeaders(admin, names)) Thread.sleep(2);
            double ready = (System.nanoTime() - start) / 1e6;
            System.out.printf("{\"created_ms\": %.1f, \"ready_ms\": %.1f}%n", created, ready);
        }
    }

    private static boolean allHaveLeaders(Admin admin, List<String> names) throws Exception {
        try {
            for (TopicDescription topic : admin.describeTopics(names).allTopicNames().get().values()) {
                if (topic.partitions().isEmpty()) return false;
                if (topic.partitions().stream().anyMatch(p -> p.leader() == null || p.leader().isEmpty())) return false;
            }
            return true;
        } catch (java.util.concurrent.ExecutionException error) {
            if (error.getCause() instanceof org.apache.kafka.common.errors.UnknownTopicOrPartitionException) return false;
            throw error;
        }
    }
}
