import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Transactions one after the other, as fast as they go; prints the rate and how long a commit takes.
 *
 * Arguments: bootstrap topic partitions transactions recordsOfEach recordBytes warmUpTransactions
 */
public final class TransactionalProducer {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        int count = Integer.parseInt(arguments[3]);
        int records = Integer.parseInt(arguments[4]);
        byte[] value = new byte[Integer.parseInt(arguments[5])];
        int warmUp = Integer.parseInt(arguments[6]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("transactional.id", "benchmark");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        long[] commits = new long[count];
        long began = 0;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            for (int i = -warmUp; i < count; i++) {
                if (i == 0) {
                    System.out.println("measuring");
                    System.out.flush();
                    began = System.nanoTime();
                }
                producer.beginTransaction();
                for (int record = 0; record < records; record++) {
                    producer.send(new ProducerRecord<>(topic, record % partitions, null, value));
                }
                long before = System.nanoTime();
                producer.commitTransaction();
                if (i >= 0) commits[i] = System.nanoTime() - before;
            }
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        Arrays.sort(commits);
        System.out.printf("{\"per_second\": %.1f, \"commit_p50_us\": %.1f, \"commit_p99_us\": %.1f}%n",
            count / seconds, commits[count / 2] / 1000.0, commits[(int) (count * 0.99)] / 1000.0);
    }
}
