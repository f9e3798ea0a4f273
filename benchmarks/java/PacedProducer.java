import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Sends records at an even pace, one per request, and prints how long acknowledgements took.
 *
 * The latency of a record counts from the moment it was due, not from the moment it was sent, so a
 * broker that stalls cannot hide the wait of the records behind it. Kafka's own
 * ProducerPerformance sends in bursts of some milliseconds and rounds to whole milliseconds: too
 * coarse for what is measured here.
 *
 * Arguments: bootstrap topic records recordBytes perSecond acks warmUpRecords
 */
public final class PacedProducer {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        long periodNanos = 1_000_000_000L / Long.parseLong(arguments[4]);
        int warmUp = Integer.parseInt(arguments[6]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("acks", arguments[5]);
        properties.put("linger.ms", "0");
        // A batch that is smaller than any record: each goes out alone.
        properties.put("batch.size", "1");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        long[] latencies = new long[records];
        AtomicInteger failures = new AtomicInteger();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            send(producer, topic, value, warmUp, periodNanos, new long[warmUp], failures);
            producer.flush();
            System.out.println("measuring");
            System.out.flush();
            long start = System.nanoTime();
            send(producer, topic, value, records, periodNanos, latencies, failures);
            producer.flush();
            double seconds = (System.nanoTime() - start) / 1e9;
            Arrays.sort(latencies);
            System.out.printf(
                "{\"rate\": %.1f, \"failures\": %d, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}%n",
                records / seconds, failures.get(), at(latencies, 0.5), at(latencies, 0.99),
                at(latencies, 0.999), at(latencies, 1.0));
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, byte[] value,
                             int records, long periodNanos, long[] latencies, AtomicInteger failures) {
        long start = System.nanoTime();
        for (int i = 0; i < records; i++) {
            long due = start + i * periodNanos;
            long left;
            while ((left = due - System.nanoTime()) > 0) {
                if (left > 60_000) LockSupport.parkNanos(left - 55_000);
            }
            int index = i;
            producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
                latencies[index] = System.nanoTime() - due;
                if (error != null && failures.getAndIncrement() == 0) System.out.println(error);
            });
        }
    }

    private static double at(long[] sorted, double fraction) {
        int index = (int) Math.min(sorted.length - 1, Math.floor(sorted.length * fraction));
        return sorted[index] / 1000.0;
    }
}
