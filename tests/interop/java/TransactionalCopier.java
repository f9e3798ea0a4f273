import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/** The copier with Java's clients: see tests/interop/copiers. */
public class TransactionalCopier {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final String output;
    private static volatile boolean isOver;

    public static void main(String[] arguments) throws Exception {
        Thread ending = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException closed) { }
            isOver = true;
        });
        ending.setDaemon(true);
        ending.start();
        TransactionalCopier copier = new TransactionalCopier(arguments);
        while (!isOver) {
            copier.copySome();
        }
        copier.consumer.close();
        copier.producer.close();
    }

    private TransactionalCopier(String[] arguments) {
        output = arguments[3];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        String deserializer = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", deserializer);
        settings.put("value.deserializer", deserializer);
        consumer = new KafkaConsumer<>(settings);
        Properties more = new Properties();
        more.put("bootstrap.servers", arguments[0]);
        more.put("transactional.id", arguments[4]);
        String serializer = "org.apache.kafka.common.serialization.ByteArraySerializer";
        more.put("key.serializer", serializer);
        more.put("value.serializer", serializer);
        producer = new KafkaProducer<>(more);
        untilAnswered(producer::initTransactions);
        consumer.subscribe(List.of(arguments[2]));
    }

    private void copySome() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
        if (records.isEmpty()) {
            return;
        }
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        try {
            for (ConsumerRecord<byte[], byte[]> record : records) {
                producer.send(new ProducerRecord<>(output, record.partition(), null, record.value()));
                ends.put(
                    new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            untilAnswered(producer::commitTransaction);
        } catch (ProducerFencedException | InvalidProducerEpochException | FencedInstanceIdException fatal) {
            throw fatal;
        } catch (KafkaException abortable) {
            untilAnswered(producer::abortTransaction);
            returnToCommits();
        }
    }

    private void returnToCommits() {
        Set<TopicPartition> mine = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(mine);
        for (TopicPartition partition : mine) {
            OffsetAndMetadata found = committed.get(partition);
            if (found == null) {
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.seek(partition, found);
            }
        }
    }

    private static void untilAnswered(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException again) {
                continue;
            }
        }
    }
}
