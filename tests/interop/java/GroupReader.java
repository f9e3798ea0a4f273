import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/**
 * A member of a group that tells on standard output what it gets, until standard input ends.
 *
 *   java GroupReader topic key=value...     the settings of the consumer
 *
 * Lines: "assigned|revoked|lost TAB milliseconds TAB partitions", "record TAB value".
 */
public class GroupReader {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        AtomicBoolean isStopped = new AtomicBoolean();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            Thread stopper = new Thread(() -> {
                try {
                    new BufferedReader(new InputStreamReader(System.in)).readLine();
                } catch (java.io.IOException ignored) {
                    // The end all the same.
                }
                isStopped.set(true);
                consumer.wakeup();
            });
            stopper.setDaemon(true);
            stopper.start();
            consumer.subscribe(List.of(arguments[0]), new Teller());
            while (!isStopped.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    tell("record\t" + new String(record.value(), StandardCharsets.UTF_8));
                }
            }
        } catch (WakeupException stop) {
            // Closed by now, in order.
        }
    }

    private static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static class Teller implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tellOf("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tellOf("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tellOf("lost", partitions);
        }

        private static void tellOf(String what, Collection<TopicPartition> partitions) {
            String numbers = partitions.stream().map(p -> String.valueOf(p.partition()))
                    .collect(Collectors.joining(","));
            tell(what + "\t" + System.currentTimeMillis() + "\t" + numbers);
        }
    }
}
