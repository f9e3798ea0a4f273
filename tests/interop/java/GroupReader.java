import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;

/**
 * Members of groups that tell on standard output what they get, until standard input ends.
 *
 * Standard input: "join TAB member TAB topic TAB key=value...", with the settings of the consumer,
 * and "leave TAB member". Each member is a consumer in a thread of its own.
 *
 * A member with enable.auto.commit=false commits what it has read before it polls again.
 *
 * Standard output: "member TAB assigned|revoked|lost TAB milliseconds TAB partitions",
 * "member TAB record TAB value", "member TAB left" and "member TAB failed TAB why".
 * Of members that commit, instead of each record: "member TAB read TAB milliseconds TAB
 * partition:first:last:count,...", then "member TAB committed TAB milliseconds TAB
 * partition:offset,..." or "member TAB refused TAB milliseconds TAB why".
 */
public class GroupReader implements Runnable, ConsumerRebalanceListener {
    private final String name;
    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final boolean isCommitting;
    private final Thread thread = new Thread(this);
    private volatile boolean isStopped;

    public static void main(String[] arguments) throws Exception {
        Map<String, GroupReader> members = new HashMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("join")) {
                GroupReader member = new GroupReader(words);
                members.put(words[1], member);
                member.thread.start();
            } else {
                members.remove(words[1]).stop();
            }
        }
        for (GroupReader member : members.values()) {
            member.stop();
        }
        for (GroupReader member : members.values()) {
            member.thread.join();
        }
    }

    private GroupReader(String[] words) {
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
        isCommitting = "false".equals(settings.getProperty("enable.auto.commit"));
        consumer = new KafkaConsumer<>(settings);
    }

    private void stop() {
        isStopped = true;
        if (!isCommitting) {
            consumer.wakeup();
        }
    }

    @Override
    public void run() {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (!isStopped) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (isCommitting) {
                    process(records);
                    continue;
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    tell("record\t" + new String(record.value(), StandardCharsets.UTF_8));
                }
            }
        } catch (WakeupException stop) {
            // Closed by now, in order.
        } catch (RuntimeException error) {
            tell("failed\t" + error);
        }
        tell("left");
    }

    private void process(ConsumerRecords<byte[], byte[]> records) {
        if (records.isEmpty()) {
            return;
        }
        List<String> read = new ArrayList<>();
        List<String> committed = new ArrayList<>();
        for (TopicPartition partition : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> some = records.records(partition);
            long first = some.get(0).offset();
            long last = some.get(some.size() - 1).offset();
            read.add(partition.partition() + ":" + first + ":" + last + ":" + some.size());
            committed.add(partition.partition() + ":" + (last + 1));
        }
        tell("read\t" + System.currentTimeMillis() + "\t" + String.join(",", read));
        try {
            while (!hasCommitted()) {
                // Nobody knows what became of it: the same again.
            }
            tell("committed\t" + System.currentTimeMillis() + "\t" + String.join(",", committed));
        } catch (CommitFailedException | RebalanceInProgressException refused) {
            tell("refused\t" + System.currentTimeMillis() + "\t" + refused);
        }
    }

    private boolean hasCommitted() {
        try {
            consumer.commitSync();
            return true;
        } catch (TimeoutException error) {
            tell("repeated\t" + error);
            return false;
        }
    }

    private void tell(String what) {
        synchronized (System.out) {
            System.out.println(name + "\t" + what);
            System.out.flush();
        }
    }

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

    private void tellOf(String what, Collection<TopicPartition> partitions) {
        String numbers = partitions.stream().map(p -> String.valueOf(p.partition()))
                .collect(Collectors.joining(","));
        tell(what + "\t" + System.currentTimeMillis() + "\t" + numbers);
    }
}
