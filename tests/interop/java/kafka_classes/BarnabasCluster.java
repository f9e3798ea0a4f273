import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.fault.FaultHandlerException;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;

/** A cluster of Barnabas brokers, as far as Kafka's tests reach it by its addresses. */
final class BarnabasCluster implements ClusterInstance {
    private static final long WAIT_MS = 30_000;

    private final ClusterConfig config;
    private final Map<Integer, Integer> ports = new TreeMap<>();
    private final Set<Integer> stoppedBrokers = new TreeSet<>();
    private boolean isStarted;
    private boolean isStopped;

    BarnabasCluster(ClusterConfig config) {
        this.config = config;
    }

    @Override
    public Type type() {
        return Type.KRAFT;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        Map<Integer, KafkaBroker> views = new TreeMap<>();
        brokerIds().forEach(id -> views.put(id, BrokerView.of(this, id)));
        return views;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        return Map.of();
    }

    @Override
    public Set<Integer> brokerIds() {
        Set<Integer> ids = new TreeSet<>();
        for (int id = 0; id < config.numBrokers(); id++) {
            ids.add(id);
        }
        return ids;
    }

    @Override
    public Set<Integer> controllerIds() {
        return Set.of();
    }

    @Override
    public ListenerName clientListener() {
        return ListenerName.normalised("PLAINTEXT");
    }

    @Override
    public ListenerName controllerListenerName() {
        throw new UnsupportedOperationException("there is no listener of controllers");
    }

    @Override
    public String bootstrapServers() {
        return ports.values().stream().map(port -> "127.0.0.1:" + port)
            .collect(Collectors.joining(","));
    }

    @Override
    public String bootstrapControllers() {
        throw new UnsupportedOperationException("there is no listener of controllers");
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return List.copyOf(ports.values());
    }

    @Override
    public List<Integer> controllerBoundPorts() {
        return List.of();
    }

    @Override
    public String clusterId() {
        return get(admin -> admin.describeCluster().clusterId().get());
    }

    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        return Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER);
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public void start() {
        if (isStarted) {
            return;
        }
        ports.putAll(ClusterControl.get().start(
            config.numBrokers(), config.serverProperties(), config.perServerOverrideProperties()));
        isStarted = true;
        config.features().forEach((feature, level) -> setFeature(feature.featureName(), level));
    }

    private void setFeature(String name, short level) {
        get(admin -> {
            var known = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
            short now = known.containsKey(name) ? known.get(name).maxVersionLevel() : 0;
            if (now != level) {
                var type = now < level
                    ? FeatureUpdate.UpgradeType.UPGRADE
                    : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
                var update = Map.of(name, new FeatureUpdate(level, type));
                admin.updateFeatures(update, new UpdateFeaturesOptions()).all().get();
            }
            return null;
        });
    }

    @Override
    public boolean started() {
        return isStarted;
    }

    @Override
    public void stop() {
        if (isStarted && !isStopped) {
            isStopped = true;
            ClusterControl.get().stop();
        }
    }

    @Override
    public boolean stopped() {
        return isStopped;
    }

    @Override
    public void shutdownBroker(int id) {
        if (stoppedBrokers.add(id)) {
            ClusterControl.get().stopBroker(id);
        }
    }

    @Override
    public void startBroker(int id) {
        if (stoppedBrokers.remove(id)) {
            ClusterControl.get().startBroker(id);
        }
    }

    boolean isRunning(int id) {
        return isStarted && !isStopped && !stoppedBrokers.contains(id);
    }

    int port(int id) {
        return ports.get(id);
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        int count = config.numBrokers() - stoppedBrokers.size();
        until("brokers are ready", () ->
            get(admin -> admin.describeCluster().nodes().get().size()) == count);
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        until("topic " + topic + " is there", () -> get(admin -> {
            TopicDescription found =
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            return (partitions <= 0 || found.partitions().size() == partitions)
                && found.partitions().stream().allMatch(one -> one.leader() != null);
        }));
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        until("topic " + topic + " is gone", () ->
            get(admin -> !admin.listTopics().names().get().contains(topic)));
    }

    @Override
    public void ensureConsistentMetadata() {
        // Barnabas answers once its brokers have applied what was changed.
    }

    @Override
    public void ensureConsistentMetadata(
            Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) {
        ensureConsistentMetadata();
    }

    private interface Call<T> {
        T with(Admin admin) throws Exception;
    }

    private <T> T get(Call<T> call) {
        try (Admin admin = admin()) {
            return call.with(admin);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void until(String what, Callable<Boolean> holds) throws InterruptedException {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        Exception last = null;
        while (System.currentTimeMillis() < deadline) {
            try {
                if (holds.call()) {
                    return;
                }
            } catch (Exception error) {
                last = error;
            }
            Thread.sleep(50);
        }
        throw new AssertionError("not in 30 seconds: " + what, last);
    }
}
