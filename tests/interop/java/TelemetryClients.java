import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;

/**
 * A producer and a consumer that push their metrics by the defaults of Java, until standard input
 * ends.
 *
 * Arguments: bootstrap topic clientIdPrefix. Standard output: "producer ID" and "consumer ID" with
 * the ids of the client instances, then "ended produced consumed".
 */
public final class TelemetryClients {
    private static volatile boolean isEnding;

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        properties.put("auto.offset.reset", "earliest");
        properties.put("group.id", arguments[2] + "-group");
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                // The end of the input, however it comes, is the sign to stop.
            }
            isEnding = true;
        });
        watcher.setDaemon(true);
        watcher.start();
        Properties ofProducer = (Properties) properties.clone();
        ofProducer.put("client.id", arguments[2] + "-producer");
        Properties ofConsumer = (Properties) properties.clone();
        ofConsumer.put("client.id", arguments[2] + "-consumer");
        long produced = 0;
        long consumed = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(ofProducer);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(ofConsumer)) {
            consumer.subscribe(List.of(topic));
            System.out.println("producer " + producer.clientInstanceId(Duration.ofSeconds(60)));
            Uuid ofConsumerInstance = null; // which it gets while it is polled
            while (!isEnding) {
                producer.send(new ProducerRecord<>(topic, "a value")).get();
                produced++;
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(20));
                consumed += records.count();
                if (ofConsumerInstance == null) {
                    ofConsumerInstance = consumer.clientInstanceId(Duration.ZERO);
                    if (ofConsumerInstance != null) {
                        System.out.println("consumer " + ofConsumerInstance);
                    }
                }
            }
        }
        System.out.println("ended " + produced + " " + consumed);
    }
}
