import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * An idempotent producer with the defaults of Java under steady load, which lives through faults.
 *
 * It numbers its records per partition (the key) and appends a line "partition number offset" for
 * each acknowledged one. It ends when its standard input is closed, after everything is delivered.
 *
 * Arguments: bootstrap topic partitions acknowledgedFile [pauseMilliseconds]
 */
public final class SteadyLoad {
    public static void main(String[] arguments) throws Exception {
        int partitions = Integer.parseInt(arguments[2]);
        long pauseMs = arguments.length > 4 ? Long.parseLong(arguments[4]) : 2;
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        // The fault may last longer than the two minutes after which a record would be given up.
        properties.put("delivery.timeout.ms", "600000");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        byte[] value = new byte[200];
        AtomicReference<Exception> failure = new AtomicReference<>();
        int number = 0;
        try (BufferedWriter acknowledged = Files.newBufferedWriter(Path.of(arguments[3]))) {
            try (KafkaProducer<String, byte[]> producer = new KafkaProducer<>(properties)) {
                while (!isClosed()) {
                    for (int partition = 0; partition < partitions; partition++) {
                        String key = Integer.toString(number);
                        producer.send(new ProducerRecord<>(arguments[1], partition, key, value), (metadata, error) -> {
                            if (error != null) {
                                String what = Instant.now() + " " + metadata + " number " + key;
                                failure.compareAndSet(null, new Exception(what, error));
                                return;
                            }
                            note(acknowledged, metadata.partition() + " " + key + " " + metadata.offset() + "\n", failure);
                        });
                    }
                    number++;
                    Thread.sleep(pauseMs);
                }
                producer.flush();
            }
        }
        if (failure.get() != null) {
            failure.get().printStackTrace();
            System.exit(1);
        }
        System.out.println("produced " + number * partitions);
    }

    private static synchronized void note(BufferedWriter out, String line, AtomicReference<Exception> failure) {
        try {
            out.write(line);
            out.flush();
        } catch (java.io.IOException error) {
            failure.compareAndSet(null, error);
        }
    }

    private static volatile boolean closed;

    static {
        Thread watcher = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                // The end of the input, however it comes, is the sign to stop.
            }
            closed = true;
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    private static boolean isClosed() {
        return closed;
    }
}
