import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Sends records at an even pace to all partitions in turn, with the defaults of the producer
 * (idempotent, acks=all, no linger), and tells for each phase how long nothing was acknowledged.
 *
 * A line "mark NAME" on the standard input begins a phase, "end" ends the last one. The silence of a
 * phase is the longest time between two acknowledgements of which the later one lies in it, over all
 * partitions together and for the worst single partition. Latencies count from when a record was due
 * and belong to the phase in which it was due.
 *
 * Arguments: bootstrap topic partitions recordBytes perSecond recordsMax
 */
public final class FailoverProducer {
    private record Phase(String name, long startNanos) {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        long periodNanos = 1_000_000_000L / Long.parseLong(arguments[4]);
        int recordsMax = Integer.parseInt(arguments[5]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        long[] due = new long[recordsMax];
        long[] acknowledged = new long[recordsMax];
        AtomicInteger failures = new AtomicInteger();
        List<Phase> phases = new ArrayList<>();
        boolean[] ended = {false};
        Thread reader = new Thread(() -> readMarks(phases, ended));
        reader.setDaemon(true);
        int sent = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.partitionsFor(topic);
            System.out.println("measuring");
            System.out.flush();
            reader.start();
            long start = System.nanoTime();
            while (sent < recordsMax) {
                synchronized (phases) {
                    if (ended[0]) break;
                }
                int index = sent++;
                due[index] = start + index * periodNanos;
                long left;
                while ((left = due[index] - System.nanoTime()) > 0) {
                    if (left > 60_000) LockSupport.parkNanos(left - 55_000);
                }
                producer.send(new ProducerRecord<>(topic, index % partitions, null, value), (metadata, error) -> {
                    acknowledged[index] = error == null ? System.nanoTime() : -1;
                    if (error != null && failures.getAndIncrement() == 0) System.out.println("failure: " + error);
                });
            }
            producer.flush();
        }
        report(phases, due, acknowledged, sent, partitions, failures.get());
    }

    private static void readMarks(List<Phase> phases, boolean[] ended) {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            String line;
            while ((line = lines.readLine()) != null) {
                synchronized (phases) {
                    if (line.startsWith("mark ")) phases.add(new Phase(line.substring(5), System.nanoTime()));
                    if (line.equals("end")) ended[0] = true;
                }
            }
        } catch (java.io.IOException error) {
            System.out.println("failure: " + error);
        }
        synchronized (phases) {
            ended[0] = true;
        }
    }

    private static void report(List<Phase> phases, long[] due, long[] acknowledged, int sent, int partitions, int failures) {
        StringBuilder out = new StringBuilder("{\"failures\": " + failures + ", \"sent\": " + sent + ", \"phases\": [");
        for (int number = 0; number < phases.size(); number++) {
            long from = phases.get(number).startNanos();
            long to = number + 1 < phases.size() ? phases.get(number + 1).startNanos() : Long.MAX_VALUE;
            double worst = 0;
            for (int partition = 0; partition < partitions; partition++) {
                worst = Math.max(worst, silence(acknowledged, sent, partition, partitions, from, to));
            }
            List<Long> latencies = new ArrayList<>();
            for (int index = 0; index < sent; index++) {
                if (due[index] >= from && due[index] < to && acknowledged[index] > 0) latencies.add(acknowledged[index] - due[index]);
            }
            long[] sorted = latencies.stream().mapToLong(Long::longValue).sorted().toArray();
            out.append(number > 0 ? ", " : "").append(String.format(java.util.Locale.ROOT,
                "{\"name\": \"%s\", \"records\": %d, \"silence_ms\": %.1f, \"partition_silence_ms\": %.1f, \"p50_ms\": %.2f, \"p99_ms\": %.2f, \"max_ms\": %.2f}",
                phases.get(number).name(), sorted.length, silence(acknowledged, sent, 0, 1, from, to) / 1e6, worst / 1e6,
                at(sorted, 0.5), at(sorted, 0.99), at(sorted, 1.0)));
        }
        System.out.println(out.append("]}"));
    }

    /** The longest time between two acknowledgements of every step-th record, the later one in the phase. */
    private static double silence(long[] acknowledged, int sent, int first, int step, long from, long to) {
        long[] times = new long[(sent - first + step - 1) / step];
        int count = 0;
        for (int index = first; index < sent; index += step) {
            if (acknowledged[index] > 0) times[count++] = acknowledged[index];
        }
        Arrays.sort(times, 0, count);
        long longest = 0;
        for (int index = 1; index < count; index++) {
            if (times[index] >= from && times[index - 1] < to) longest = Math.max(longest, times[index] - Math.max(times[index - 1], from));
        }
        return longest;
    }

    private static double at(long[] sorted, double fraction) {
        if (sorted.length == 0) return 0;
        return sorted[(int) Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] / 1e6;
    }
}
