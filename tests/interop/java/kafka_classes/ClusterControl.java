import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Commands to the program that starts brokers: a line of words separated by tabs, and a line back.
 * Its port is in the property `barnabas.control.port`.
 */
final class ClusterControl {
    private static ClusterControl only;

    private final Socket socket;
    private final BufferedReader answers;
    private final PrintWriter commands;

    private ClusterControl() throws IOException {
        socket = new Socket("127.0.0.1", Integer.getInteger("barnabas.control.port"));
        answers = new BufferedReader(
            new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
        commands = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    static synchronized ClusterControl get() {
        try {
            if (only == null) {
                only = new ClusterControl();
            }
            return only;
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Starts a fresh cluster with such settings; returns the port of each broker. */
    Map<Integer, Integer> start(
            int brokers,
            Map<String, String> settings,
            Map<Integer, Map<String, String>> settingsOfBrokers) {
        List<String> words = new ArrayList<>(List.of("start", Integer.toString(brokers)));
        settings.forEach((key, value) -> words.add("=" + key + "=" + value));
        settingsOfBrokers.forEach((id, own) ->
            own.forEach((key, value) -> words.add(id + "=" + key + "=" + value)));
        Map<Integer, Integer> ports = new TreeMap<>();
        for (String word : call(words)) {
            String[] pair = word.split("=");
            ports.put(Integer.valueOf(pair[0]), Integer.valueOf(pair[1]));
        }
        return ports;
    }

    void stop() {
        call(List.of("stop"));
    }

    void stopBroker(int id) {
        call(List.of("stop-broker", Integer.toString(id)));
    }

    void startBroker(int id) {
        call(List.of("start-broker", Integer.toString(id)));
    }

    private synchronized List<String> call(List<String> words) {
        commands.println(String.join("\t", words));
        try {
            String answer = answers.readLine();
            if (answer == null || !answer.startsWith("ok")) {
                throw new IllegalStateException(words.get(0) + ": " + answer);
            }
            List<String> parts = List.of(answer.split("\t"));
            return parts.subList(1, parts.size());
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }
}
