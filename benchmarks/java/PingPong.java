import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Sends one record, waits until a consumer has it, sends the next; prints the round trips.
 *
 * As Kafka's EndToEndLatency, in microseconds.
 *
 * Arguments: bootstrap topic rounds recordBytes acks warmUpRounds
 */
public final class PingPong {
    public static void main(String[] arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int rounds = Integer.parseInt(arguments[2]);
        int warmUp = Integer.parseInt(arguments[5]);
        byte[] value = new byte[Integer.parseInt(arguments[3])];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("acks", arguments[4]);
        properties.put("linger.ms", "0");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("enable.auto.commit", "false");
        properties.put("fetch.max.wait.ms", "500");
        long[] latencies = new long[rounds];
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            for (int i = -warmUp; i < rounds; i++) {
                if (i == 0) {
                    System.out.println("measuring");
                    System.out.flush();
                }
                long start = System.nanoTime();
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, value)).get();
                int received = 0;
                while (received == 0) received = consumer.poll(Duration.ofSeconds(5)).count();
                if (received != 1) throw new IllegalStateException("received " + received);
                if (i >= 0) latencies[i] = System.nanoTime() - start;
            }
        }
        Arrays.sort(latencies);
        System.out.printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}%n",
            latencies[rounds / 2] / 1000.0, latencies[(int) (rounds * 0.99)] / 1000.0,
            latencies[rounds - 1] / 1000.0);
    }
}
