// Writes ten orders and reads them as the group `billing`, with Apache Kafka's own client:
//
//     mvn -q dependency:copy-dependencies -DoutputDirectory=jars && java -cp 'jars/*' Orders.java
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Orders {
    private static final int COUNT = 10;

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", System.getenv().getOrDefault("BOOTSTRAP_SERVERS", "127.0.0.1:9092"));
        settings.put("group.id", "billing");
        settings.put("auto.offset.reset", "earliest");

        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < COUNT; number++) {
                producer.send(new ProducerRecord<>("orders", "customer-" + number % 3, "order " + number));
            }
        }

        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            int count = 0;
            while (count < COUNT) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.key() + " " + record.value());
                    count++;
                }
            }
        }
    }
}
