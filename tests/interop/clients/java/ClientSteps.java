import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The steps of steps.py with the Java client; one source for every version of kafka-clients. */
public final class ClientSteps {
    private static final long DEADLINE_MS = 40_000;
    private final String bootstrap;
    private final Admin admin;

    private ClientSteps(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        ClientSteps client = new ClientSteps(arguments[0]);
        for (String line : Files.readAllLines(Path.of(arguments[1]))) {
            if (!line.isBlank()) {
                String[] step = line.split("\t");
                String answer = client.run(step[0], Arrays.copyOfRange(step, 1, step.length));
                System.out.println("result\t" + answer);
            }
        }
        client.admin.close();
        System.exit(0);
    }

    private String run(String name, String[] a) throws Exception {
        return switch (name) {
            case "create" -> create(a);
            case "create_partitions" -> ok(admin.createPartitions(
                    Map.of(a[0], NewPartitions.increaseTo(Integer.parseInt(a[1])))).all());
            case "produce" -> produce(a[0], a[1], a[2].equals("1"), a[3]);
            case "consume" -> consume(a[0], a[1], Integer.parseInt(a[2]), a[3]);
            case "read" -> read(a[0], Integer.parseInt(a[1]), a[2]);
            case "seek" -> seek(a[0], Long.parseLong(a[1]), a[2]);
            case "offsets" -> offsets(a[0]);
            case "committed" -> committed(a[0], a[1]);
            case "config" -> config(a[0], a[1]);
            case "alter_config" -> alterConfig(a[0], a[1], a[2]);
            case "topics" -> String.join(",", new TreeSet<>(get(admin.listTopics().names())));
            case "groups" -> get(admin.listConsumerGroups().all()).stream()
                    .map(group -> group.groupId()).sorted().collect(Collectors.joining(","));
            case "delete" -> ok(admin.deleteTopics(List.of(a[0])).all());
            case "delete_group" -> ok(admin.deleteConsumerGroups(List.of(a[0])).all());
            case "rebalance" -> rebalance(a[0], a[1], Integer.parseInt(a[2]));
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
    }

    private static String ok(Future<Void> future) throws Exception {
        get(future);
        return "ok";
    }

    private String create(String[] a) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (int i = 2; i < a.length; i++) {
            String[] pair = a[i].split("=", 2);
            configs.put(pair[0], pair[1]);
        }
        NewTopic topic = new NewTopic(a[0], Integer.parseInt(a[1]), (short) 1).configs(configs);
        return ok(admin.createTopics(List.of(topic)).all());
    }

    private String produce(String topic, String codec, boolean idempotent, String file)
            throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", codec);
        properties.put("enable.idempotence", String.valueOf(idempotent));
        properties.put("acks", "all");
        properties.put("linger.ms", "20");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(Path.of(file))) {
                String[] f = line.split("\t", -1);
                sent.add(producer.send(new ProducerRecord<>(topic, Integer.valueOf(f[0]),
                        Long.valueOf(f[2]), bytes(f[3]), bytes(f[4]), headers(f[5]))));
            }
            producer.flush();
            for (Future<RecordMetadata> future : sent) {
                get(future);
            }
        }
        return String.valueOf(sent.size());
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : HexFormat.of().parseHex(text.substring(1));
    }

    private static String text(byte[] data) {
        return data == null ? "-" : "x" + HexFormat.of().formatHex(data);
    }

    private static List<Header> headers(String text) {
        List<Header> headers = new ArrayList<>();
        for (String pair : text.split(",")) {
            if (!pair.isEmpty()) {
                String[] parts = pair.split("=", 2);
                headers.add(new RecordHeader(parts[0], bytes(parts[1])));
            }
        }
        return headers;
    }

    private KafkaConsumer<byte[], byte[]> consumer(String group) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        // From 4.0 on a client that reaches no broker forgets all metadata; a group's leader then
        // takes that for a change of its topics, and rejoins without having committed.
        properties.put("metadata.recovery.strategy", "none");
        return new KafkaConsumer<>(
                properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void poll(KafkaConsumer<byte[], byte[]> consumer, long count, String file)
            throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (records.size() < count) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("read " + records.size() + " of " + count);
            }
            consumer.poll(Duration.ofMillis(500)).forEach(records::add);
        }
        records.sort(Comparator.<ConsumerRecord<byte[], byte[]>>comparingInt(r -> r.partition())
                .thenComparingLong(r -> r.offset()));
        List<String> lines = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> r : records) {
            List<String> pairs = new ArrayList<>();
            r.headers().forEach(h -> pairs.add(h.key() + "=" + text(h.value())));
            lines.add(String.join("\t", String.valueOf(r.partition()), String.valueOf(r.offset()),
                    String.valueOf(r.timestamp()), text(r.key()), text(r.value()),
                    String.join(",", pairs)));
        }
        Files.write(Path.of(file), lines);
    }

    private String consume(String topic, String group, int count, String file) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            consumer.subscribe(List.of(topic));
            poll(consumer, count, file);
            consumer.commitSync();
        }
        return String.valueOf(count);
    }

    private static List<TopicPartition> assign(
            KafkaConsumer<byte[], byte[]> consumer, String topic) {
        List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(p -> new TopicPartition(topic, p.partition()))
                .sorted(Comparator.comparingInt(TopicPartition::partition)).toList();
        consumer.assign(partitions);
        return partitions;
    }

    private String read(String topic, int count, String file) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("reader-" + UUID.randomUUID())) {
            consumer.seekToBeginning(assign(consumer, topic));
            poll(consumer, count, file);
        }
        return String.valueOf(count);
    }

    private String seek(String topic, long timestamp, String file) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("seeker-" + UUID.randomUUID())) {
            List<TopicPartition> partitions = assign(consumer, topic);
            Map<TopicPartition, Long> wanted = new HashMap<>();
            partitions.forEach(p -> wanted.put(p, timestamp));
            Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(wanted);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<Integer, Object> starts = new TreeMap<>();
            long count = 0;
            for (TopicPartition p : partitions) {
                long start = found.get(p) == null ? ends.get(p) : found.get(p).offset();
                consumer.seek(p, start);
                starts.put(p.partition(), start);
                count += ends.get(p) - start;
            }
            poll(consumer, count, file);
            return pairs(starts);
        }
    }

    private static String pairs(Map<Integer, Object> map) {
        return new TreeMap<>(map).entrySet().stream().map(e -> e.getKey() + ":" + e.getValue())
                .collect(Collectors.joining(","));
    }

    private String offsets(String topic) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("offsets")) {
            List<TopicPartition> partitions = assign(consumer, topic);
            Map<TopicPartition, Long> low = consumer.beginningOffsets(partitions);
            Map<TopicPartition, Long> high = consumer.endOffsets(partitions);
            Map<Integer, Object> both = new TreeMap<>();
            partitions.forEach(p -> both.put(p.partition(), low.get(p) + ":" + high.get(p)));
            return pairs(both);
        }
    }

    private String committed(String group, String topic) throws Exception {
        Map<Integer, Object> offsets = new TreeMap<>();
        get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                .forEach((p, value) -> {
                    if (p.topic().equals(topic)) {
                        offsets.put(p.partition(), value.offset());
                    }
                });
        return pairs(offsets);
    }

    private String config(String topic, String key) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        return get(admin.describeConfigs(List.of(resource)).all()).get(resource).get(key).value();
    }

    private String alterConfig(String topic, String key, String value) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp operation =
                new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
        return ok(admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all());
    }

    private String rebalance(String topic, String group, int total) {
        List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            KafkaConsumer<byte[], byte[]> consumer = consumer(group);
            consumer.subscribe(List.of(topic));
            consumers.add(consumer);
        }
        String three = settle(consumers, total);
        consumers.remove(2).close();
        String two = settle(consumers, total);
        consumers.forEach(KafkaConsumer::close);
        return three + ";" + two;
    }

    private static String settle(List<KafkaConsumer<byte[], byte[]>> consumers, int total) {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (System.currentTimeMillis() < deadline) {
            Set<TopicPartition> all = new HashSet<>();
            List<Integer> sizes = new ArrayList<>();
            for (KafkaConsumer<byte[], byte[]> consumer : consumers) {
                consumer.poll(Duration.ofMillis(50));
            }
            for (KafkaConsumer<byte[], byte[]> consumer : consumers) {
                all.addAll(consumer.assignment());
                sizes.add(consumer.assignment().size());
            }
            Collections.sort(sizes);
            int sum = sizes.stream().mapToInt(Integer::intValue).sum();
            if (sizes.get(0) > 0 && sum == total && all.size() == total) {
                return sizes.stream().map(String::valueOf).collect(Collectors.joining(","));
            }
        }
        throw new IllegalStateException("no complete assignment");
    }
}
