import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * A producer with nothing but defaults (acks=all, idempotent, two minutes per record), at a steady
 * rate, that tells how its users have fared.
 *
 * Records are numbered per partition (the key). For each acknowledged one "partition number offset"
 * is appended to /tmp/acknowledged. When /tmp/stop appears it delivers what it has, writes
 * /tmp/summary.json and waits to be killed, so that both can be fetched.
 *
 * Arguments: bootstrap topic partitions recordsPerSecond [client.properties]
 */
public final class MeasuredLoad {
    private static final Path STOP = Path.of("/tmp/stop");

    private final BufferedWriter acknowledged;
    private long[] latenciesNs = new long[1 << 16];
    private int count;
    private long errors;
    private String firstError = "";
    private long lastNs;
    private long longestPauseNs;

    private MeasuredLoad(BufferedWriter acknowledged) {
        this.acknowledged = acknowledged;
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        if (arguments.length > 4) {
            try (BufferedReader file = Files.newBufferedReader(Path.of(arguments[4]))) {
                properties.load(file);
            }
        }
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        int partitions = Integer.parseInt(arguments[2]);
        long intervalNs = 1_000_000_000L / Integer.parseInt(arguments[3]);
        long sent = 0;
        MeasuredLoad load;
        try (BufferedWriter acknowledged = Files.newBufferedWriter(Path.of("/tmp/acknowledged"))) {
            load = new MeasuredLoad(acknowledged);
            try (KafkaProducer<String, byte[]> producer = new KafkaProducer<>(properties)) {
                sent = load.produce(producer, arguments[1], partitions, intervalNs);
            }
        }
        Files.writeString(Path.of("/tmp/summary.partial"), load.summary(sent));
        Files.move(Path.of("/tmp/summary.partial"), Path.of("/tmp/summary.json"));
        Thread.sleep(Long.MAX_VALUE);
    }

    private long produce(KafkaProducer<String, byte[]> producer, String topic, int partitions, long intervalNs) {
        byte[] value = new byte[200];
        long sent = 0;
        long nextNs = System.nanoTime();
        while (sent % 64 != 0 || !Files.exists(STOP)) {
            int partition = (int) (sent % partitions);
            String number = Long.toString(sent / partitions);
            // A record is late from the moment it was due: a send that blocks is no excuse.
            long dueNs = nextNs;
            producer.send(new ProducerRecord<>(topic, partition, number, value),
                    (metadata, error) -> note(metadata, error, number, dueNs));
            sent++;
            nextNs += intervalNs;
            long waitNs = nextNs - System.nanoTime();
            if (waitNs > 0) {
                LockSupport.parkNanos(waitNs);
            }
        }
        producer.flush();
        return sent;
    }

    private synchronized void note(RecordMetadata metadata, Exception error, String number, long dueNs) {
        if (error != null) {
            errors++;
            if (firstError.isEmpty()) {
                firstError = error.toString();
                error.printStackTrace();
            }
            return;
        }
        long nowNs = System.nanoTime();
        if (count > 0) {
            longestPauseNs = Math.max(longestPauseNs, nowNs - lastNs);
        }
        lastNs = nowNs;
        if (count == latenciesNs.length) {
            latenciesNs = Arrays.copyOf(latenciesNs, 2 * count);
        }
        latenciesNs[count++] = nowNs - dueNs;
        try {
            acknowledged.write(metadata.partition() + " " + number + " " + metadata.offset() + "\n");
            acknowledged.flush();
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }

    private synchronized String summary(long sent) {
        long[] sorted = Arrays.copyOf(latenciesNs, count);
        Arrays.sort(sorted);
        return String.format(Locale.ROOT,
                "{\"sent\": %d, \"acknowledged\": %d, \"errors\": %d, \"first_error\": \"%s\","
                        + " \"p50_ms\": %.1f, \"p99_ms\": %.1f, \"max_ms\": %.1f, \"longest_pause_ms\": %.1f}%n",
                sent, count, errors, firstError.replaceAll("[\"\\\\\\p{Cntrl}]", " "),
                at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1), longestPauseNs / 1e6);
    }

    private static double at(long[] sorted, double quantile) {
        if (sorted.length == 0) {
            return 0;
        }
        return sorted[(int) Math.min(sorted.length - 1, Math.floor(quantile * sorted.length))] / 1e6;
    }
}
