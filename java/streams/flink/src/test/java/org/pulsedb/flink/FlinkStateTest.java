package org.pulsedb.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.pulsedb.PulseEnv;

@Timeout(300)
final class FlinkStateTest {
  private static final long NUMBERS = 400_000;
  private static final long KEYS = 5_000;
  @TempDir Path dir;

  // Of the job that runs; the mini cluster is in this process.
  private static final Map<Long, Long> SUMS = new HashMap<>();
  private static final AtomicLong SEEN = new AtomicLong();
  private static final AtomicBoolean SLOW = new AtomicBoolean();

  /** Adds up by key, and says each new sum. */
  private static final class Sum extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1L;
    private transient ValueState<Long> sum;

    @Override
    public void open(final OpenContext context) {
      sum = getRuntimeContext().getState(new ValueStateDescriptor<>("sum", Types.LONG));
    }

    @Override
    public void processElement(final Long number, final Context context, final Collector<Tuple2<Long, Long>> out)
        throws Exception {
      final Long before = sum.value();
      final long after = (before == null ? 0 : before) + number;
      sum.update(after);
      SEEN.incrementAndGet();
      if (SLOW.get() && number % 50 == 0) Thread.sleep(1);
      synchronized (SUMS) {
        SUMS.put(context.getCurrentKey(), after);
      }
      out.collect(Tuple2.of(context.getCurrentKey(), after));
    }
  }

  private Configuration configuration(final String uri) {
    final Configuration config = StateConfiguration.in(dir);
    config.setString("state.backend.rocksdb.options-factory", PulseOptionsFactory.class.getName());
    if (uri != null) config.set(PulseOptionsFactory.URI, uri);
    config.setString("state.backend.rocksdb.writebuffer.size", "64kb");
    config.setString("execution.checkpointing.interval", "300 ms");
    config.setString("restart-strategy.fixed-delay.delay", "200 ms");
    return config;
  }

  private static StreamExecutionEnvironment job(final Configuration config) {
    final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(config);
    env.setParallelism(2);
    env.fromSequence(1, NUMBERS).keyBy(number -> number % KEYS).process(new Sum()).sinkTo(new DiscardingSink<>());
    return env;
  }

  private static void checkSums() {
    // Of key k: k + (k + KEYS) + ..., or KEYS + 2 KEYS + ... for 0.
    final long each = NUMBERS / KEYS;
    assertEquals(KEYS, SUMS.size());
    for (long key = 0; key < KEYS; ++key) {
      final long first = key == 0 ? KEYS : key;
      assertEquals(each * first + KEYS * (each * (each - 1) / 2), SUMS.get(key), "key " + key);
    }
  }

  private MiniCluster start(final Configuration config) throws Exception {
    SUMS.clear();
    SEEN.set(0);
    final MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(config)
        .setNumTaskManagers(2).setNumSlotsPerTaskManager(2).build());
    cluster.start();
    return cluster;
  }

  @Test
  void State_OnPulse_IsRight() throws Exception {
    final String uri = "pulse://?agent_cpus=0&flushes=agent";
    final Configuration config = configuration(uri);
    try (MiniCluster cluster = start(config)) {
      final JobExecutionResult result = cluster.executeJobBlocking(job(config).getStreamGraph().getJobGraph());
      assertTrue(result.isJobExecutionResult());
    }
    checkSums();
    assertTrue(PulseEnv.shared(uri).counters().get("pulse.persisted.bytes") > 0, "nothing went through PulseDB");
    assertTrue(PulseEnv.shared(uri).counters().get("pulse.flushes.on_agent") > 0, "the state was not placed");
  }

  @Test
  void TaskManager_AndAgent_Killed_JobRecoversFromItsCheckpoint() throws Exception {
    final Path socket = dir.resolve("agent.sock");
    final Process agent = new ProcessBuilder(System.getProperty("pulse.program"), "agent", "--socket",
        socket.toString()).redirectErrorStream(true).redirectOutput(dir.resolve("agent.log").toFile()).start();
    try {
      while (!Files.exists(socket)) Thread.sleep(20);
      final Configuration config = configuration("pulse://" + socket);
      SLOW.set(true);
      try (MiniCluster cluster = start(config)) {
        final var graph = job(config).getStreamGraph().getJobGraph();
        cluster.submitJob(graph).get();
        while (SEEN.get() < NUMBERS / 4) Thread.sleep(20);
        agent.destroyForcibly().waitFor();
        cluster.terminateTaskManager(0).get();
        cluster.startTaskManager();
        SLOW.set(false);
        final JobExecutionResult result =
            cluster.requestJobResult(graph.getJobID()).get().toJobExecutionResult(getClass().getClassLoader());
        assertTrue(result.getNetRuntime() > 0);
      }
      assertTrue(SEEN.get() > NUMBERS, "the job was not restarted");
      checkSums();
    } finally {
      SLOW.set(false);
      agent.destroyForcibly();
    }
  }

  @Test
  void WrongUri_JobFailsAndSaysWhy() throws Exception {
    final Configuration config = configuration("pulse://?placment=split");
    config.setString("restart-strategy.type", "none");
    try (MiniCluster cluster = start(config)) {
      Throwable why = assertThrows(
          Exception.class, () -> cluster.executeJobBlocking(job(config).getStreamGraph().getJobGraph()));
      final StringBuilder all = new StringBuilder();
      for (; why != null; why = why.getCause()) all.append(why.getMessage()).append('\n');
      assertTrue(all.toString().contains("placment"), all.toString());
    }
  }
}
