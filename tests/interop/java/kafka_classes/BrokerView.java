import kafka.server.KafkaBroker;

import org.apache.kafka.common.Node;
import org.apache.kafka.metadata.MetadataCache;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.util.List;

/**
 * What can be told of a Barnabas broker through Kafka's class of its own: where it listens, whether
 * it runs, and its end. A test that wants more looks inside a broker, and fails by name.
 */
final class BrokerView {
    private BrokerView() { }

    static KafkaBroker of(BarnabasCluster cluster, int id) {
        InvocationHandler handler = (self, method, arguments) -> {
            switch (method.getName()) {
                case "boundPort":
                    return cluster.port(id);
                case "isShutdown":
                    return !cluster.isRunning(id);
                case "shutdown":
                    cluster.shutdownBroker(id);
                    return null;
                case "startup":
                    cluster.startBroker(id);
                    return null;
                case "awaitShutdown":
                    return null; // stopping it has waited
                case "clusterId":
                    return cluster.clusterId();
                case "metadataCache":
                    return cache(cluster);
                case "hashCode":
                    return id;
                case "equals":
                    return self == arguments[0];
                case "toString":
                    return "broker " + id;
                default:
                    throw inside(method.getName());
            }
        };
        return (KafkaBroker) proxy(KafkaBroker.class, handler);
    }

    private static MetadataCache cache(BarnabasCluster cluster) {
        return (MetadataCache) proxy(MetadataCache.class, (self, method, arguments) -> {
            if (method.getName().equals("getAliveBrokerNodes")) {
                List<Integer> running =
                    cluster.brokerIds().stream().filter(cluster::isRunning).toList();
                return running.stream()
                    .map(id -> new Node(id, "127.0.0.1", cluster.port(id)))
                    .toList();
            }
            throw inside("metadataCache." + method.getName());
        });
    }

    private static Object proxy(Class<?> type, InvocationHandler handler) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }

    private static UnsupportedOperationException inside(String name) {
        return new UnsupportedOperationException("looks inside a broker: " + name);
    }
}
