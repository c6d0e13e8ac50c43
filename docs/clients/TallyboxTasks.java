// SPDX-License-Identifier: MIT

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BiConsumer;
import java.util.function.LongSupplier;

/**
 * Hands tasks to the retry queue of tallybox over HTTP, and receives its calls. Standard library
 * only, Java 17 or newer; copy the file into your project. README.md explains the rules that the
 * four files of this folder share.
 *
 * <pre>
 * java TallyboxTasks.java receive PORT [FAILURES]   a webhook that fails FAILURES times for each task
 * java TallyboxTasks.java report COUNT WEBHOOK      work that fails here and is handed over
 * </pre>
 *
 * TALLYBOX_URL (http://127.0.0.1:8080) and TALLYBOX_TOKEN name the server and the token. With
 * TALLYBOX_GROUP the webhook registers itself as a client of this group.
 */
public final class TallyboxTasks {
    static final int BATCH = 100; // tasks of one request; the server takes 1,000
    static final Duration CALL = Duration.ofSeconds(10);
    static final long WAIT_MS = 200; // after the first failed request; doubled by each further one
    static final long WAIT_MS_MAX = 30_000;
    /** Statuses that mean the tasks; others mean the server or the token. */
    static final Set<Integer> REFUSES = Set.of(400, 409, 413, 422);
    static final Set<String> LATER = Set.of("too_many_requests", "unavailable", "timeout");

    /** The work, or the task, fails always: do not try it again. */
    public static final class Refused extends Exception {
        private static final long serialVersionUID = 1;

        public Refused(String reason) {
            super(reason);
        }
    }

    /** The server did not take the request now, or its answer was lost. Send the same again. */
    public static final class Unavailable extends Exception {
        private static final long serialVersionUID = 1;
        final long waitMs;

        public Unavailable(String reason, long waitMs) {
            super(reason);
            this.waitMs = waitMs;
        }
    }

    /** Any thread. A task is a map with the fields of TaskRequest of openapi.yaml. */
    public static final class Client {
        private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)
                .connectTimeout(CALL).build();
        private final String url;
        private final String token;

        public Client(String url, String token) {
            this.url = url.replaceAll("/+$", "");
            this.token = token;
        }

        /**
         * Hands over 1 to 1,000 tasks, committed when it returns: one answer for each, with id and
         * existed, or with error. A task needs an idempotencyKey, by which it is the same task when
         * it is sent again.
         */
        public List<?> submit(List<Map<String, Object>> tasks)
                throws Refused, Unavailable, InterruptedException {
            if (post("/v1/tasks", tasks) instanceof List<?> answers && answers.size() == tasks.size()) {
                return answers;
            }
            throw new Unavailable("not one answer for each task", 0);
        }

        /**
         * Registers this process as a client that takes the tasks of a group at an address, for 90
         * seconds; the answer has configVersion and beatMs.
         */
        public Map<?, ?> beat(String group, String address, String version, long failedReports)
                throws Refused, Unavailable, InterruptedException {
            if (post("/v1/clients/beat", Map.of("group", group, "address", address, "version", version,
                    "failedReports", failedReports)) instanceof Map<?, ?> answer) {
                return answer;
            }
            throw new Unavailable("the answer is no object", 0);
        }

        /**
         * Beats every 30 seconds in a thread. countFailed is the number of failed reports so far, as
         * Reporter.failedCalls; each is told once.
         */
        public void keepBeating(String group, String address, String version, LongSupplier countFailed) {
            var thread = new Thread(() -> {
                long told = 0;
                try {
                    for (long waitMs = 30_000;; Thread.sleep(waitMs)) {
                        long failed = countFailed.getAsLong();
                        try {
                            var answer = beat(group, address, version, failed - told);
                            waitMs = answer.get("beatMs") instanceof Number ms ? ms.longValue() : waitMs;
                            told = failed;
                        } catch (Refused | Unavailable error) {
                            System.err.println("no beat: " + error.getMessage());
                        }
                    }
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }, "tallybox-beats");
            thread.setDaemon(true);
            thread.start();
        }

        private Object post(String path, Object body) throws Refused, Unavailable, InterruptedException {
            var request = HttpRequest.newBuilder(URI.create(url + path)).timeout(CALL)
                    .header("Content-Type", "application/json")
                    .header("Authorization", "Bearer " + token)
                    .POST(HttpRequest.BodyPublishers.ofString(Json.write(body))).build();
            HttpResponse<String> response;
            try {
                response = http.send(request, HttpResponse.BodyHandlers.ofString());
            } catch (IOException error) {
                throw new Unavailable(error.toString(), 0);
            }
            if (response.statusCode() != 200) {
                var text = response.body();
                var reason = "status " + response.statusCode() + ": "
                        + text.substring(0, Math.min(text.length(), 1000));
                if (REFUSES.contains(response.statusCode())) {
                    throw new Refused(reason);
                }
                throw new Unavailable(reason, response.headers().firstValue("Retry-After")
                        .filter(value -> value.matches("[0-9]{1,6}")).map(Long::parseLong).orElse(0L) * 1000);
            }
            try {
                return Json.read(response.body());
            } catch (IllegalArgumentException error) {
                throw new Unavailable(error.getMessage(), 0);
            }
        }
    }

    /**
     * Tries work here, and hands over what keeps failing. Tasks wait in a window in memory and are
     * sent by a thread, BATCH at a time or when the first has waited for flushMs. A crash of the
     * process loses the window; close() sends it. onRefused learns of tasks that can never be taken;
     * it must not throw. Any thread may call a reporter.
     */
    public static final class Reporter {
        private final Client client;
        private final int window;
        private final long flushMs;
        private final BiConsumer<Map<String, Object>, String> onRefused;
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition changed = lock.newCondition();
        private final ArrayDeque<Map<String, Object>> waiting = new ArrayDeque<>(); // guarded by lock
        private volatile long closingAt; // System.nanoTime(); 0: open
        private final Thread thread = new Thread(this::sendAll, "tallybox-tasks");
        /** Written by the thread alone. */
        public volatile long reported;
        public volatile long refused;
        public volatile long failedCalls;
        public volatile String lastError = "";

        public Reporter(Client client, int window, long flushMs,
                BiConsumer<Map<String, Object>, String> onRefused) {
            this.client = client;
            this.window = window;
            this.flushMs = flushMs;
            this.onRefused = onRefused;
            thread.setDaemon(true);
            thread.start();
        }

        /**
         * Returns "done" if the work succeeded, else "queued locally": the task is in the window. A
         * full window makes the caller wait. Refused, thrown by the work, reaches the caller.
         */
        public String attempt(Callable<?> work, Map<String, Object> task, int attempts, long waitMs)
                throws Refused, Unavailable, InterruptedException {
            for (int attempt = 0; attempt < attempts; attempt++) {
                try {
                    work.call();
                    return "done";
                } catch (Refused | InterruptedException error) {
                    throw error;
                } catch (Exception error) {
                    if (attempt + 1 < attempts) {
                        Thread.sleep(spread(waitMs << attempt));
                    }
                }
            }
            var full = new LinkedHashMap<>(task);
            full.putIfAbsent("idempotencyKey", UUID.randomUUID().toString());
            lock.lockInterruptibly();
            try {
                while (closingAt == 0 && waiting.size() >= window) {
                    changed.await();
                }
                if (closingAt != 0) {
                    throw new Unavailable("the reporter is closed", 0);
                }
                waiting.add(full);
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            return "queued locally";
        }

        /** Sends the window; returns the tasks that could not be sent in time. */
        public List<Map<String, Object>> close(Duration limit) throws InterruptedException {
            lock.lock();
            try {
                if (closingAt == 0) {
                    closingAt = Math.max(1, System.nanoTime() + limit.toNanos());
                }
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            thread.join(limit.plus(CALL).toMillis());
            lock.lock();
            try {
                return new ArrayList<>(waiting);
            } finally {
                lock.unlock();
            }
        }

        private void sendAll() {
            int size = BATCH;
            long wait = WAIT_MS;
            try {
                for (;;) {
                    var batch = nextBatch(size);
                    if (batch.isEmpty()) {
                        return;
                    }
                    List<Map<String, Object>> kept = new ArrayList<>();
                    Unavailable error = null;
                    try {
                        error = readAnswers(batch, client.submit(batch), kept);
                        size = Math.min(size * 2, BATCH);
                    } catch (Refused thrown) {
                        if (batch.size() > 1) { // too large together, or one is in the others' way
                            size = batch.size() / 2;
                            continue;
                        }
                        refuse(batch.get(0), thrown.getMessage());
                    } catch (Unavailable thrown) {
                        kept = batch;
                        error = thrown;
                    }
                    replace(batch.size(), kept);
                    if (error != null) {
                        pause(error, wait);
                    }
                    wait = error != null ? Math.min(wait * 2, WAIT_MS_MAX) : WAIT_MS;
                }
            } catch (InterruptedException error) {
                lastError = "interrupted";
            }
        }

        private List<Map<String, Object>> nextBatch(int size) throws InterruptedException {
            lock.lock();
            try {
                while (waiting.isEmpty() && closingAt == 0) {
                    changed.await();
                }
                long left = TimeUnit.MILLISECONDS.toNanos(flushMs);
                while (left > 0 && waiting.size() < size && closingAt == 0) {
                    left = changed.awaitNanos(left);
                }
                var batch = new ArrayList<Map<String, Object>>();
                if (closingAt == 0 || System.nanoTime() - closingAt < 0) {
                    waiting.stream().limit(size).forEach(batch::add);
                }
                return batch;
            } finally {
                lock.unlock();
            }
        }

        private void replace(int count, List<Map<String, Object>> kept) {
            lock.lock();
            try {
                for (int i = 0; i < count; i++) {
                    waiting.removeFirst();
                }
                for (int i = kept.size() - 1; i >= 0; i--) {
                    waiting.addFirst(kept.get(i));
                }
                changed.signalAll();
            } finally {
                lock.unlock();
            }
        }

        /** Adds the tasks to send again to kept; returns why, or null. */
        private Unavailable readAnswers(List<Map<String, Object>> batch, List<?> answers,
                List<Map<String, Object>> kept) {
            Unavailable why = null;
            for (int i = 0; i < batch.size(); i++) {
                if (!(((Map<?, ?>) answers.get(i)).get("error") instanceof Map<?, ?> error)) {
                    reported++;
                } else if (LATER.contains(error.get("code"))) {
                    kept.add(batch.get(i));
                    why = new Unavailable(String.valueOf(error.get("message")), 0);
                } else {
                    refuse(batch.get(i), error.get("code") + ": " + error.get("message"));
                }
            }
            return why;
        }

        private void refuse(Map<String, Object> task, String reason) {
            refused++;
            onRefused.accept(task, reason);
        }

        /** close() shortens the pause. */
        private void pause(Unavailable error, long wait) throws InterruptedException {
            failedCalls++;
            lastError = error.getMessage();
            long pause = Math.max(error.waitMs, spread(wait));
            lock.lock();
            try {
                long left = TimeUnit.MILLISECONDS.toNanos(pause);
                while (left > 0 && closingAt == 0) {
                    left = changed.awaitNanos(left);
                }
            } finally {
                lock.unlock();
            }
            if (closingAt != 0) {
                Thread.sleep(Math.min(pause, WAIT_MS));
            }
        }
    }

    /** Keeps processes from trying again at the same time. */
    static long spread(long ms) {
        return (long) (ms * (0.5 + ThreadLocalRandom.current().nextDouble()));
    }

    /** The little of JSON that this file needs; use the library of your project instead. */
    static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        static String write(Object value) {
            var out = new StringBuilder();
            write(out, value);
            return out.toString();
        }

        private static void write(StringBuilder out, Object value) {
            if (value instanceof Map<?, ?> map) {
                var comma = "{";
                for (var entry : map.entrySet()) {
                    out.append(comma);
                    write(out, entry.getKey());
                    out.append(':');
                    write(out, entry.getValue());
                    comma = ",";
                }
                out.append(map.isEmpty() ? "{}" : "}");
            } else if (value instanceof List<?> list) {
                var comma = "[";
                for (var item : list) {
                    out.append(comma);
                    write(out, item);
                    comma = ",";
                }
                out.append(list.isEmpty() ? "[]" : "]");
            } else if (value instanceof String string) {
                out.append('"');
                for (char c : string.toCharArray()) {
                    if (c < ' ' || c == '"' || c == '\\') {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
                }
                out.append('"');
            } else {
                out.append(value);
            }
        }

        static Object read(String text) {
            var json = new Json(text);
            try {
                var value = json.value();
                if (json.next() != '\0') {
                    throw new IllegalArgumentException("not JSON: text after the value");
                }
                return value;
            } catch (StringIndexOutOfBoundsException error) {
                throw new IllegalArgumentException("not JSON: it ends early");
            }
        }

        private char next() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : '\0';
        }

        private boolean skip(char c) {
            boolean found = next() == c;
            at += found ? 1 : 0;
            return found;
        }

        private void expect(char c) {
            if (!skip(c)) {
                throw new IllegalArgumentException("not JSON: '" + c + "' is missing at " + at);
            }
        }

        private Object value() {
            if (skip('{')) {
                var map = new HashMap<String, Object>();
                for (boolean more = !skip('}'); more; more = skip(',')) {
                    var name = string();
                    expect(':');
                    map.put(name, value());
                    if (next() != ',') {
                        expect('}');
                        break;
                    }
                }
                return map;
            }
            if (skip('[')) {
                var list = new ArrayList<>();
                for (boolean more = !skip(']'); more; more = skip(',')) {
                    list.add(value());
                    if (next() != ',') {
                        expect(']');
                        break;
                    }
                }
                return list;
            }
            return next() == '"' ? string() : word();
        }

        private String string() {
            var out = new StringBuilder();
            for (expect('"'); text.charAt(at) != '"'; at++) {
                char c = text.charAt(at);
                if (c == '\\') {
                    c = text.charAt(++at);
                    if (c == 'u') {
                        c = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                        at += 4;
                    } else {
                        c = "\b\f\n\r\t\"\\/".charAt("bfnrt\"\\/".indexOf(c));
                    }
                }
                out.append(c);
            }
            at++;
            return out.toString();
        }

        private Object word() {
            int from = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            var word = text.substring(from, at);
            return switch (word) {
                case "true" -> true;
                case "false" -> false;
                case "null" -> null;
                default -> Double.valueOf(word);
            };
        }
    }

    /**
     * Receives the calls of the handler `http`. A task may be called again after it took effect: keep
     * the Idempotency-Key with the effect, in one transaction of your database; here it is in memory.
     */
    static final class Webhook {
        private final int failures;
        private final Map<String, Integer> calls = new HashMap<>();
        private final Set<String> done = new HashSet<>();

        Webhook(int failures) {
            this.failures = failures;
        }

        void handle(HttpExchange exchange) throws IOException {
            try (exchange) {
                var body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
                var params = body.isEmpty() ? "null" : body;
                int status;
                try {
                    Json.read(params);
                    status = exchange.getRequestURI().getPath().endsWith("/tallybox/config") ? tell(params)
                            : take(header(exchange, "Idempotency-Key"), header(exchange, "tallybox-attempt"), params);
                } catch (IllegalArgumentException error) {
                    exchange.getResponseHeaders().set("tallybox-no-retry", "1"); // ends the task
                    status = 422;
                }
                exchange.sendResponseHeaders(status, -1);
            }
        }

        private static String header(HttpExchange exchange, String name) {
            var value = exchange.getRequestHeaders().getFirst(name);
            return value == null ? "" : value;
        }

        private static int tell(String params) {
            var version = Json.read(params) instanceof Map<?, ?> config ? config.get("version") : "";
            System.out.println("{\"config\":" + Json.write(version) + "}");
            return 200;
        }

        private synchronized int take(String key, String attempt, String params) {
            int call = calls.merge(key, 1, Integer::sum);
            var result = done.contains(key) ? "repeated" : call <= failures ? "failed" : "done";
            if (result.equals("done")) {
                done.add(key);
            }
            System.out.println("{\"result\":" + Json.write(result) + ",\"key\":" + Json.write(key)
                    + ",\"params\":" + params + ",\"attempt\":" + (attempt.isEmpty() ? "0" : attempt) + "}");
            return result.equals("failed") ? 503 : 200; // 503: tried again
        }
    }

    private static Client makeClient() {
        return new Client(System.getenv().getOrDefault("TALLYBOX_URL", "http://127.0.0.1:8080"),
                System.getenv().getOrDefault("TALLYBOX_TOKEN", ""));
    }

    private static void receive(int port, int failures) throws IOException {
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 0);
        server.createContext("/", new Webhook(failures)::handle);
        server.setExecutor(Executors.newFixedThreadPool(4));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> server.stop(1)));
        server.start();
        System.out.println("{\"listening\":" + server.getAddress().getPort() + "}");
        var group = System.getenv("TALLYBOX_GROUP");
        if (group != null) {
            makeClient().keepBeating(group, "http://127.0.0.1:" + server.getAddress().getPort(), "java", () -> 0);
        }
    }

    private static int report(int count, String webhook) throws Exception {
        var reporter = new Reporter(makeClient(), 1000, 1000, (task, reason) -> System.err
                .println("refused: " + task.get("idempotencyKey") + ": " + reason));
        var run = UUID.randomUUID().toString().substring(0, 8);
        for (int number = 0; number < count; number++) {
            System.out.println(reporter.attempt(() -> {
                throw new IOException("the other system does not answer");
            }, Map.of("scene", "webhook", "handler", "http", "bizNo", String.valueOf(number),
                    "idempotencyKey", run + "/" + number, "options", Map.of("url", webhook),
                    "params", Map.of("number", number)), 3, 1));
        }
        var lost = reporter.close(Duration.ofSeconds(30));
        System.out.println("{\"reported\":" + reporter.reported + ",\"refused\":" + reporter.refused
                + ",\"lost\":" + lost.size() + ",\"failedCalls\":" + reporter.failedCalls + "}");
        if (lost.isEmpty() && reporter.refused == 0) {
            return 0;
        }
        System.err.println("not all tasks were handed over; last error: " + reporter.lastError);
        return 1;
    }

    public static void main(String[] words) throws Exception {
        if ((words.length == 2 || words.length == 3) && words[0].equals("receive")) {
            receive(Integer.parseInt(words[1]), words.length == 3 ? Integer.parseInt(words[2]) : 0);
        } else if (words.length == 3 && words[0].equals("report")) {
            System.exit(report(Integer.parseInt(words[1]), words[2]));
        } else {
            System.err.println("usage: TallyboxTasks receive PORT [FAILURES] | report COUNT WEBHOOK");
            System.exit(2);
        }
    }
}
