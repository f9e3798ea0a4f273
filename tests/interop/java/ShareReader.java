import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.errors.WakeupException;

/**
 * Members of share groups that tell on standard output what they get, until standard input ends.
 *
 * Standard input: "join TAB member TAB topic TAB key=value...", with the settings of the consumer,
 * and "leave TAB member". Each member is a share consumer in a thread of its own.
 *
 * A member with share.acknowledgement.mode=explicit does what a record's value begins with: accept,
 * reject, release (until the third delivery, which is accepted) or keep, which waits for ever. Any
 * other member accepts all with its next poll.
 *
 * Standard output: "member TAB record TAB partition:offset:count TAB value" for each delivery,
 * "member TAB acknowledged TAB partition:offset,..." or "member TAB refused TAB why" when a broker
 * has answered, "member TAB left" and "member TAB failed TAB why".
 */
public class ShareReader implements Runnable {
    private static final short LAST_DELIVERY = 3;

    private final String name;
    private final String topic;
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    private final boolean isExplicit;
    private final Thread thread = new Thread(this);
    private volatile boolean isStopped;

    public static void main(String[] arguments) throws Exception {
        Map<String, ShareReader> members = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("join")) {
                ShareReader member = new ShareReader(words);
                members.put(words[1], member);
                member.thread.start();
            } else {
                members.remove(words[1]).stop();
            }
        }
        for (ShareReader member : members.values()) {
            member.stop();
        }
        for (ShareReader member : members.values()) {
            member.thread.join();
        }
    }

    private ShareReader(String[] words) {
        name = words[1];
        topic = words[2];
        Properties settings = new Properties();
        for (int i = 3; i < words.length; i++) {
            String[] parts = words[i].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        settings.put("key.deserializer", bytes);
        settings.put("value.deserializer", bytes);
        isExplicit = "explicit".equals(settings.getProperty("share.acknowledgement.mode"));
        consumer = new KafkaShareConsumer<>(settings);
        consumer.setAcknowledgementCommitCallback((offsets, error) -> {
            if (error != null) {
                tell("refused", error.toString());
                return;
            }
            StringBuilder told = new StringBuilder();
            offsets.forEach((partition, some) -> some.forEach(
                offset -> told.append(partition.partition() + ":" + offset + ",")));
            tell("acknowledged", told.toString());
        });
    }

    private void stop() {
        isStopped = true;
        consumer.wakeup();
    }

    @Override
    public void run() {
        try {
            consumer.subscribe(List.of(topic));
            while (!isStopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    take(record);
                }
            }
        } catch (WakeupException stopped) {
            // That was asked for.
        } catch (Exception error) {
            tell("failed", error.toString());
        }
        try {
            consumer.close(Duration.ofSeconds(20));
        } catch (Exception error) {
            tell("failed", error.toString());
        }
        tell("left");
    }

    private void take(ConsumerRecord<byte[], byte[]> record) throws InterruptedException {
        String value = new String(record.value(), StandardCharsets.UTF_8);
        short count = record.deliveryCount().orElse((short) -1);
        tell("record", record.partition() + ":" + record.offset() + ":" + count + "\t" + value);
        if (!isExplicit) {
            return;
        }
        if (value.startsWith("keep")) {
            Thread.sleep(Long.MAX_VALUE);
        } else if (value.startsWith("reject")) {
            consumer.acknowledge(record, AcknowledgeType.REJECT);
        } else if (value.startsWith("release") && count < LAST_DELIVERY) {
            consumer.acknowledge(record, AcknowledgeType.RELEASE);
        } else {
            consumer.acknowledge(record, AcknowledgeType.ACCEPT);
        }
    }

    private void tell(String... words) {
        synchronized (System.out) {
            System.out.println(name + "\t" + String.join("\t", words));
            System.out.flush();
        }
    }
}
