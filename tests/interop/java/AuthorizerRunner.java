import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.MetricValueProvider;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.internals.CidrUtils;

/**
 * Asks Kafka's authorizer what it decides, for tests of ours. Lines from standard input, tabs
 * between the fields, numbers as on the wire:
 *
 *   config  super users  whether everyone is allowed without an ACL
 *   acl     resource type  name  pattern type  principal  host  operation  permission
 *   ask     principal type  principal name  address  operation  resource type  name
 *   any     principal type  principal name  address  operation  resource type
 *   cidr    text
 *
 * Each `config` begins a new set of ACLs. Answer: a line to each question: allowed, denied, valid,
 * or why a text is no range.
 */
public class AuthorizerRunner {
    private record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "CLIENTS"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_SSL; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "asker"; }
        public int correlationId() { return 0; }
    }

    /** Sensors that nobody reads. */
    private static class NoMetrics implements PluginMetrics {
        private final Metrics metrics = new Metrics();
        public MetricName metricName(String name, String text, LinkedHashMap<String, String> tags) {
            return metrics.metricName(name, "none", text);
        }
        public void addMetric(MetricName name, MetricValueProvider<?> value) { }
        public void removeMetric(MetricName name) { }
        public Sensor addSensor(String name) { return metrics.sensor(name); }
        public void removeSensor(String name) { }
    }

    private final Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
    private StandardAuthorizer authorizer;

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        NoMetrics metrics = new NoMetrics();
        AuthorizerRunner runner = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "config" -> runner = new AuthorizerRunner(fields, metrics);
                case "acl" -> runner.add(fields);
                case "ask" -> System.out.println(runner.ask(fields));
                case "any" -> System.out.println(runner.askAny(fields));
                case "cidr" -> System.out.println(cidr(fields[1]));
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private AuthorizerRunner(String[] fields, PluginMetrics metrics) {
        authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
            "super.users", fields[1], "allow.everyone.if.no.acl.found", fields[2], "node.id", "1"));
        authorizer.withPluginMetrics(metrics);
        authorizer.completeInitialLoad();
    }

    private void add(String[] fields) {
        acls.put(Uuid.randomUuid(), new StandardAcl(
            ResourceType.fromCode(Byte.parseByte(fields[1])),
            fields[2],
            PatternType.fromCode(Byte.parseByte(fields[3])),
            fields[4],
            fields[5],
            AclOperation.fromCode(Byte.parseByte(fields[6])),
            AclPermissionType.fromCode(Byte.parseByte(fields[7]))));
        authorizer.loadSnapshot(acls);
    }

    private static Context context(String[] fields) throws Exception {
        return new Context(
            new KafkaPrincipal(fields[1], fields[2]), InetAddress.getByName(fields[3]));
    }

    private static String text(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? "allowed" : "denied";
    }

    private String ask(String[] fields) throws Exception {
        ResourcePattern resource = new ResourcePattern(
            ResourceType.fromCode(Byte.parseByte(fields[5])), fields[6], PatternType.LITERAL);
        Action action = new Action(
            AclOperation.fromCode(Byte.parseByte(fields[4])), resource, 1, true, true);
        return text(authorizer.authorize(context(fields), List.of(action)).get(0));
    }

    private String askAny(String[] fields) throws Exception {
        return text(authorizer.authorizeByResourceType(
            context(fields),
            AclOperation.fromCode(Byte.parseByte(fields[4])),
            ResourceType.fromCode(Byte.parseByte(fields[5]))));
    }

    private static String cidr(String text) {
        try {
            CidrUtils.validate(text);
            return "valid";
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
    }
}
