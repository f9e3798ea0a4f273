import java.time.Duration;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams' word count, exactly once: lines in, each new count of each word out.
 *
 * Every count is written, since nothing is cached, so a reader sees 1, 2, 3 of each word without a
 * gap and without a repetition, whoever was killed meanwhile. It ends at SIGTERM.
 *
 * Arguments: bootstrap fromTopic toTopic stateDirectory
 */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", "word-count");
        properties.put("state.dir", arguments[3]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("default.key.serde", Serdes.StringSerde.class.getName());
        properties.put("default.value.serde", Serdes.StringSerde.class.getName());
        properties.put("statestore.cache.max.bytes", "0");
        properties.put("commit.interval.ms", "100");
        properties.put("replication.factor", "1");
        properties.put("auto.offset.reset", "earliest");
        // Who was killed is missed soon, and so are its transactions.
        properties.put("session.timeout.ms", "6000");
        properties.put("heartbeat.interval.ms", "1000");
        properties.put("transaction.timeout.ms", "6000");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
            .flatMapValues(line -> java.util.List.of(line.toLowerCase(Locale.ROOT).split("\\W+")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count()
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));

        CountDownLatch ended = new CountDownLatch(1);
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            ended.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        ended.await();
        System.exit(1);
    }
}
