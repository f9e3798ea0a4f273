import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs Kafka's assignors on cases from standard input, for tests of ours. Lines of a case, tabs
 * between the fields, "-" for nothing:
 *
 *   assignor  name
 *   topic     name  racks of partition 0;racks of partition 1;...   (racks: names with commas)
 *   member    id  instance id  rack  generation  topics with commas  owned  user data in hex
 *   end
 *
 * Partitions are written topic:0.1.2,other:3. Answer: a line "id TAB partitions" per member, "end".
 */
public class AssignorRunner {
    private final Map<String, Node> nodes = new LinkedHashMap<>();
    private final List<PartitionInfo> partitions = new ArrayList<>();
    private final Map<String, Subscription> members = new LinkedHashMap<>();
    private ConsumerPartitionAssignor assignor;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        AssignorRunner runner = new AssignorRunner();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "assignor" -> runner.assignor = named(fields[1]);
                case "topic" -> runner.addTopic(fields[1], fields[2]);
                case "member" -> runner.addMember(fields);
                case "end" -> {
                    runner.answer();
                    runner = new AssignorRunner();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private void addTopic(String topic, String racksByPartition) {
        int partition = 0;
        for (String racks : racksByPartition.split(";")) {
            List<Node> replicas = new ArrayList<>();
            for (String rack : racks.split(",")) {
                String name = rack.equals("-") ? null : rack;
                replicas.add(nodes.computeIfAbsent(
                        rack, r -> new Node(nodes.size(), "host", 9092, name)));
            }
            Node[] all = replicas.toArray(new Node[0]);
            partitions.add(new PartitionInfo(topic, partition++, all[0], all, all));
        }
    }

    private void addMember(String[] fields) {
        ByteBuffer userData =
                fields[7].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(fields[7]));
        Subscription subscription = new Subscription(
                List.of(fields[5].split(",")), userData, parse(fields[6]),
                Integer.parseInt(fields[4]), optional(fields[3]));
        subscription.setGroupInstanceId(optional(fields[2]));
        members.put(fields[1], subscription);
    }

    private static Optional<String> optional(String text) {
        return text.equals("-") ? Optional.empty() : Optional.of(text);
    }

    private static List<TopicPartition> parse(String text) {
        List<TopicPartition> result = new ArrayList<>();
        if (!text.equals("-")) {
            for (String topic : text.split(",")) {
                String[] parts = topic.split(":");
                for (String number : parts[1].split("\\.")) {
                    result.add(new TopicPartition(parts[0], Integer.parseInt(number)));
                }
            }
        }
        return result;
    }

    private void answer() {
        Cluster cluster = new Cluster("cluster", nodes.values(), partitions,
                Collections.emptySet(), Collections.emptySet());
        var assignments = assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
        StringBuilder out = new StringBuilder();
        assignments.forEach((member, assignment) -> {
            Map<String, TreeSet<Integer>> topics = new TreeMap<>();
            for (TopicPartition p : assignment.partitions()) {
                topics.computeIfAbsent(p.topic(), t -> new TreeSet<>()).add(p.partition());
            }
            List<String> parts = new ArrayList<>();
            topics.forEach((topic, numbers) -> parts.add(topic + ":"
                    + String.join(".", numbers.stream().map(String::valueOf).toList())));
            out.append(member).append('\t')
                    .append(parts.isEmpty() ? "-" : String.join(",", parts)).append('\n');
        });
        System.out.print(out.append("end\n"));
    }
}
