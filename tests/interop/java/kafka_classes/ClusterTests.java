import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.AutoStart;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.ClusterConfigProperty;
import org.apache.kafka.common.test.api.ClusterFeature;
import org.apache.kafka.common.test.api.ClusterTemplate;
import org.apache.kafka.common.test.api.ClusterTest;
import org.apache.kafka.common.test.api.ClusterTestDefaults;
import org.apache.kafka.server.common.Feature;

import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.junit.jupiter.api.extension.TestTemplateInvocationContextProvider;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Runs the tests that are marked for a cluster once for each configuration that they name, against
 * a cluster of Barnabas that lives as long as the test. Kafka's own extension, which starts brokers
 * in this process, is not to be registered.
 */
public final class ClusterTests implements TestTemplateInvocationContextProvider {

    @Override
    public boolean supportsTestTemplate(ExtensionContext context) {
        return !configs(context).isEmpty();
    }

    @Override
    public Stream<TestTemplateInvocationContext> provideTestTemplateInvocationContexts(
            ExtensionContext context) {
        return configs(context).stream().map(Invocation::new);
    }

    private static List<ClusterConfig> configs(ExtensionContext context) {
        Method method = context.getRequiredTestMethod();
        ClusterTestDefaults defaults =
            context.getRequiredTestClass().getAnnotation(ClusterTestDefaults.class);
        List<ClusterConfig> configs = new ArrayList<>();
        ClusterTemplate template = method.getAnnotation(ClusterTemplate.class);
        if (template != null) {
            configs.addAll(generated(context.getRequiredTestClass(), template.value()));
        }
        for (ClusterTest one : method.getAnnotationsByType(ClusterTest.class)) {
            configs.add(config(one, defaults));
        }
        var many = method.getAnnotation(org.apache.kafka.common.test.api.ClusterTests.class);
        if (many != null) {
            for (ClusterTest one : many.value()) {
                configs.add(config(one, defaults));
            }
        }
        return configs;
    }

    @SuppressWarnings("unchecked")
    private static List<ClusterConfig> generated(Class<?> tests, String name) {
        for (Class<?> type = tests; type != null; type = type.getSuperclass()) {
            try {
                Method generator = type.getDeclaredMethod(name);
                generator.setAccessible(true);
                return (List<ClusterConfig>) generator.invoke(null);
            } catch (NoSuchMethodException missing) {
                continue;
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }
        throw new IllegalStateException("no method " + name + " in " + tests);
    }

    private static ClusterConfig config(ClusterTest own, ClusterTestDefaults defaults) {
        Map<String, String> settings = new HashMap<>();
        Map<Integer, Map<String, String>> settingsOfBrokers = new HashMap<>();
        int brokers = own.brokers();
        boolean isAutoStart = own.autoStart() != AutoStart.NO;
        if (defaults != null) {
            read(defaults.serverProperties(), settings, settingsOfBrokers);
            brokers = brokers == 0 ? defaults.brokers() : brokers;
            isAutoStart = own.autoStart() == AutoStart.DEFAULT
                ? defaults.autoStart()
                : own.autoStart() == AutoStart.YES;
        }
        read(own.serverProperties(), settings, settingsOfBrokers);
        Map<Feature, Short> features = new HashMap<>();
        for (ClusterFeature one : own.features()) {
            features.put(one.feature(), one.version());
        }
        return ClusterConfig.defaultBuilder()
            .setBrokers(Math.max(1, brokers))
            .setAutoStart(isAutoStart)
            .setBrokerSecurityProtocol(own.brokerSecurityProtocol())
            .setServerProperties(settings)
            .setPerServerProperties(settingsOfBrokers)
            .setFeatures(features)
            .build();
    }

    private static void read(
            ClusterConfigProperty[] properties,
            Map<String, String> settings,
            Map<Integer, Map<String, String>> settingsOfBrokers) {
        for (ClusterConfigProperty one : properties) {
            Map<String, String> target = one.id() < 0
                ? settings
                : settingsOfBrokers.computeIfAbsent(one.id(), id -> new HashMap<>());
            target.put(one.key(), one.value());
        }
    }

    /** One run of one test. */
    private static final class Invocation implements TestTemplateInvocationContext {
        private final BarnabasCluster cluster;

        Invocation(ClusterConfig config) {
            cluster = new BarnabasCluster(config);
        }

        @Override
        public String getDisplayName(int number) {
            return "[" + number + "]";
        }

        @Override
        public List<Extension> getAdditionalExtensions() {
            BeforeEachCallback start = context -> {
                if (cluster.config().isAutoStart()) {
                    cluster.start();
                }
            };
            AfterEachCallback stop = context -> cluster.stop();
            return List.of(start, stop, new ClusterParameter(cluster));
        }
    }

    private static final class ClusterParameter implements ParameterResolver {
        private final ClusterInstance cluster;

        ClusterParameter(ClusterInstance cluster) {
            this.cluster = cluster;
        }

        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
            return parameter.getParameter().getType() == ClusterInstance.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
            return cluster;
        }
    }
}
