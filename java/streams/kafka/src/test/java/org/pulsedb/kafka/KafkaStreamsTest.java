package org.pulsedb.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.pulsedb.PulseEnv;

@Timeout(300)
final class KafkaStreamsTest {
  private static final int PARTITIONS = 4;
  @TempDir Path dir;
  private KafkaClusterTestKit cluster;
  private final Map<String, Long> expected = new HashMap<>();
  private final List<Process> processes = new ArrayList<>();

  @BeforeEach
  void startBroker() throws Exception {
    final TestKitNodes nodes = new TestKitNodes.Builder().setCombined(true).setNumBrokerNodes(1)
        .setNumControllerNodes(1).build();
    cluster = new KafkaClusterTestKit.Builder(nodes)
        .setConfigProp("offsets.topic.replication.factor", "1")
        .setConfigProp("transaction.state.log.replication.factor", "1")
        .setConfigProp("transaction.state.log.min.isr", "1")
        .setConfigProp("group.initial.rebalance.delay.ms", "0")
        .build();
    cluster.format();
    cluster.startup();
    cluster.waitForReadyBrokers();
    try (Admin admin = Admin.create(client())) {
      admin.createTopics(List.of(new NewTopic("numbers", PARTITIONS, (short) 1),
          new NewTopic("sums", PARTITIONS, (short) 1))).all().get();
    }
  }

  @AfterEach
  void stop() throws Exception {
    for (final Process process : processes) process.destroyForcibly().waitFor();
    cluster.close();
  }

  private Properties client() {
    final Properties config = new Properties();
    config.put("bootstrap.servers", cluster.bootstrapServers());
    return config;
  }

  // Numbers for random keys.
  private void produce(final int records, final long seed) {
    final Random random = new Random(seed);
    try (KafkaProducer<String, Long> producer =
        new KafkaProducer<>(client(), new StringSerializer(), new LongSerializer())) {
      for (int i = 0; i < records; ++i) {
        final String key = "key" + random.nextInt(records / 4);
        final long number = random.nextInt(1000);
        expected.merge(key, number, Long::sum);
        producer.send(new ProducerRecord<>("numbers", key, number));
      }
      producer.flush();
    }
  }

  private long stateBytes() {
    return (long) expected.size() * Counter.BYTES;
  }

  // Until the committed sums are those expected.
  private void awaitSums() {
    final Properties config = client();
    config.put(ConsumerConfig.GROUP_ID_CONFIG, "check" + System.nanoTime());
    config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
    final Map<String, Long> sums = new HashMap<>();
    try (KafkaConsumer<String, Long> consumer =
        new KafkaConsumer<>(config, new StringDeserializer(), new LongDeserializer())) {
      consumer.subscribe(List.of("sums"));
      while (!sums.equals(expected)) {  // the test's time limit ends it
        for (final ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(200))) {
          sums.put(record.key(), record.value());
        }
        for (final Process process : processes) {
          if (!process.isAlive() && process.exitValue() == 1) throw new AssertionError("an instance has ended");
        }
      }
    }
  }

  private static boolean holds(final KafkaStreams streams, final Map<String, Long> totals) throws Exception {
    while (true) {
      try {
        final ReadOnlyKeyValueStore<String, byte[]> store = streams.store(
            StoreQueryParameters.fromNameAndType("totals", QueryableStoreTypes.keyValueStore()));
        for (final Map.Entry<String, Long> total : totals.entrySet()) {
          final byte[] value = store.get(total.getKey());
          if (value == null || Counter.sumIn(value) != total.getValue()) return false;
        }
        return true;
      } catch (InvalidStateStoreException e) {
        Thread.sleep(50);  // it is being opened
      }
    }
  }

  @Test
  void State_OnPulse_IsRightAndSurvivesARestart() throws Exception {
    final String uri = "pulse://";
    produce(20000, 1);
    try (KafkaStreams streams = Counter.streams(cluster.bootstrapServers(), dir.resolve("a"), uri)) {
      streams.start();
      awaitSums();
      assertTrue(holds(streams, expected));
    }
    long persisted = PulseEnv.shared(uri).counters().get("pulse.persisted.bytes");
    // Four stores with a memtable each would hold less.
    assertTrue(persisted > stateBytes() && stateBytes() > 2L * PARTITIONS * SmallMemtables.BYTES,
        persisted + " bytes went through PulseDB, of a state of " + stateBytes());
    produce(5000, 2);
    try (KafkaStreams streams = Counter.streams(cluster.bootstrapServers(), dir.resolve("a"), uri)) {
      streams.start();
      awaitSums();
      assertTrue(holds(streams, expected));
    }
    // The files are RocksDB's: the same directory without PulseDB.
    produce(1000, 3);
    try (KafkaStreams streams = Counter.streams(cluster.bootstrapServers(), dir.resolve("a"), null)) {
      streams.start();
      awaitSums();
      assertTrue(holds(streams, expected));
    }
  }

  @Test
  void Flushes_OnTheAgent_AsTheUriSays() throws Exception {
    final String uri = "pulse://?agent_cpus=0&flushes=agent";
    produce(20000, 7);
    try (KafkaStreams streams = Counter.streams(cluster.bootstrapServers(), dir.resolve("a"), uri)) {
      streams.start();
      awaitSums();
      assertTrue(holds(streams, expected));
    }
    assertTrue(PulseEnv.shared(uri).counters().get("pulse.flushes.on_agent") > 0, "the stores were not placed");
  }

  private Process instance(final String name, final String uri) throws Exception {
    final Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "-cp", System.getProperty("java.class.path"), Counter.class.getName(), cluster.bootstrapServers(),
        dir.resolve(name).toString(), uri).redirectErrorStream(true)
        .redirectOutput(new File(dir.toFile(), name + ".log")).start();
    processes.add(process);
    return process;
  }

  // What an agent has written for all that are attached to it, by its metrics.
  private static long writtenBy(final Path agentLog) throws Exception {
    final Matcher url = Pattern.compile("http://[0-9.:]+/metrics").matcher(Files.readString(agentLog));
    assertTrue(url.find(), "the agent names no metrics");
    final String metrics = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(url.group())).build(),
        HttpResponse.BodyHandlers.ofString()).body();
    return metrics.lines().filter(line -> line.startsWith("pulse_written_bytes_total{"))
        .mapToLong(line -> (long) Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1))).sum();
  }

  @Test
  void Instance_Killed_TheOtherGoesOn() throws Exception {
    final Path socket = dir.resolve("agent.sock");
    final Path log = dir.resolve("agent.log");
    final Process agent = new ProcessBuilder(System.getProperty("pulse.program"), "agent", "--socket",
        socket.toString(), "--metrics", "0").redirectErrorStream(true).redirectOutput(log.toFile()).start();
    processes.add(agent);
    while (!Files.exists(socket) || !Files.readString(log).contains("/metrics")) Thread.sleep(20);
    final String uri = "pulse://" + socket;
    final Process first = instance("first", uri);
    instance("second", uri);
    produce(10000, 4);
    awaitSums();
    final long written = writtenBy(log);
    assertTrue(written > stateBytes(), "the agent has written " + written + " bytes, of a state of " + stateBytes());
    produce(10000, 5);
    first.destroyForcibly().waitFor();
    awaitSums();
    // The agent, too; the instances go on without it, and the one that died starts from its directory.
    agent.destroyForcibly().waitFor();
    processes.remove(first);
    instance("first", "pulse://" + "?mover=vmread");
    produce(5000, 6);
    awaitSums();
    try (Stream<Path> files = Files.walk(dir.resolve("second"))) {
      assertTrue(files.anyMatch(file -> file.getFileName().toString().endsWith(".sst")), "no state was kept");
    }
    assertEquals(137, first.exitValue());
  }
}
