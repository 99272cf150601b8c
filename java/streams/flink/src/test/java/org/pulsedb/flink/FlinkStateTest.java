package org.pulsedb.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;
import org.apache.flink.runtime.checkpoint.RestoredCheckpointStats;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
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
  private static final long NUMBERS = 120_000;
  private static final long KEYS = 3_000;
  // Of the state of a key: many times a memtable in all, so that the state is in tables.
  private static final int BYTES = 4096;
  @TempDir Path dir;

  // Of the job that runs; the mini cluster is in this process.
  private static final Map<Long, Long> SUMS = new HashMap<>();
  private static final AtomicLong SEEN = new AtomicLong();
  // What had been seen when the job was last restarted.
  private static final AtomicLong SEEN_AT_RESTART = new AtomicLong();
  private static final AtomicBoolean SLOW = new AtomicBoolean();

  /** Adds up by key, and says each new sum. The state is the sum and bytes that follow from it, which are checked. */
  private static final class Sum extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1L;
    private transient ValueState<byte[]> sum;

    @Override
    public void open(final OpenContext context) {
      sum = getRuntimeContext().getState(
          new ValueStateDescriptor<>("sum", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
      if (getRuntimeContext().getTaskInfo().getAttemptNumber() > 0) SEEN_AT_RESTART.set(SEEN.get());
    }

    private static byte[] stateOf(final long sum) {
      final byte[] bytes = new byte[BYTES];
      new Random(sum).nextBytes(bytes);
      ByteBuffer.wrap(bytes).putLong(sum);
      return bytes;
    }

    @Override
    public void processElement(final Long number, final Context context, final Collector<Tuple2<Long, Long>> out)
        throws Exception {
      final byte[] state = sum.value();
      final long before = state == null ? 0 : ByteBuffer.wrap(state).getLong();
      if (state != null && !Arrays.equals(state, stateOf(before))) {
        throw new IllegalStateException("the state of key " + context.getCurrentKey() + " is not what was written");
      }
      final long after = before + number;
      sum.update(stateOf(after));
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
    if (uri != null) {
      config.setString("state.backend.rocksdb.options-factory", PulseOptionsFactory.class.getName());
      config.set(PulseOptionsFactory.URI, uri);
    }
    config.setString("state.backend.rocksdb.writebuffer.size", "256kb");
    config.setString("execution.checkpointing.interval", "300 ms");
    config.setString("web.refresh-interval", "50 ms");  // how old what is asked of a job may be
    config.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    config.setString("restart-strategy.fixed-delay.delay", "200 ms");
    return config;
  }

  private static StreamExecutionEnvironment job(final Configuration config) {
    final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(config);
    env.setParallelism(2);
    env.fromSequence(1, NUMBERS).uid("numbers").keyBy(number -> number % KEYS).process(new Sum()).uid("sum")
        .sinkTo(new DiscardingSink<>()).uid("nowhere");
    return env;
  }

  private static CheckpointStatsSnapshot checkpoints(final MiniCluster cluster, final JobID job) throws Exception {
    return cluster.getExecutionGraph(job).get().getCheckpointStatsSnapshot();
  }

  // Until a checkpoint is complete that was begun after a quarter of the numbers.
  private static CompletedCheckpointStats awaitCheckpoint(final MiniCluster cluster, final JobID job) throws Exception {
    while (SEEN.get() < NUMBERS / 4) Thread.sleep(20);
    final long since = System.currentTimeMillis();
    while (true) {
      final CheckpointStatsSnapshot all = checkpoints(cluster, job);
      final CompletedCheckpointStats latest = all == null ? null : all.getHistory().getLatestCompletedCheckpoint();
      if (latest != null && latest.getTriggerTimestamp() > since) return latest;
      Thread.sleep(20);
    }
  }

  // An agent of its own, that listens.
  private Process agent(final Path socket) throws Exception {
    final Process agent = new ProcessBuilder(System.getProperty("pulse.program"), "agent", "--socket",
        socket.toString()).redirectErrorStream(true).redirectOutput(dir.resolve("agent.log").toFile()).start();
    while (!Files.exists(socket)) Thread.sleep(20);
    return agent;
  }

  private static long persisted(final String uri) throws Exception {
    return PulseEnv.shared(uri).counters().get("pulse.persisted.bytes");
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
    SEEN_AT_RESTART.set(0);
    // One slot each, so that each has a part of the job.
    final MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(config)
        .setNumTaskManagers(2).setNumSlotsPerTaskManager(1).build());
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
    assertTrue(persisted(uri) > KEYS * BYTES, "of the state " + persisted(uri) + " bytes went through PulseDB");
    assertTrue(PulseEnv.shared(uri).counters().get("pulse.flushes.on_agent") > 0, "the state was not placed");
  }

  @Test
  void TaskManager_AndAgent_Killed_JobRecoversFromItsCheckpoint() throws Exception {
    final Path socket = dir.resolve("agent.sock");
    final String uri = "pulse://" + socket;
    final Process agent = agent(socket);
    try {
      final Configuration config = configuration(uri);
      SLOW.set(true);
      try (MiniCluster cluster = start(config)) {
        final var graph = job(config).getStreamGraph().getJobGraph();
        final JobID job = graph.getJobID();
        cluster.submitJob(graph).get();
        final CompletedCheckpointStats before = awaitCheckpoint(cluster, job);
        // The state so far is larger than all memtables.
        assertTrue(persisted(uri) > KEYS * BYTES / 2, "the agent has written " + persisted(uri) + " bytes");
        agent.destroyForcibly().waitFor();
        cluster.terminateTaskManager(0).get();
        cluster.startTaskManager();
        SLOW.set(false);
        final JobExecutionResult result =
            cluster.requestJobResult(job).get().toJobExecutionResult(getClass().getClassLoader());
        assertTrue(result.getNetRuntime() > 0);
        assertTrue(SEEN.get() > NUMBERS, "the job was not restarted");
        final RestoredCheckpointStats restored = checkpoints(cluster, job).getLatestRestoredCheckpoint();
        assertNotNull(restored, "the job began anew, from no checkpoint");
        assertTrue(restored.getCheckpointId() >= before.getCheckpointId(),
            "restored from checkpoint " + restored.getCheckpointId() + ", before " + before.getCheckpointId());
      }
      // What the checkpoint holds is not seen again: a quarter at least, and some for who counts on at the restart.
      assertTrue(SEEN.get() - NUMBERS < SEEN_AT_RESTART.get() - NUMBERS / 8,
          SEEN + " numbers were seen, " + SEEN_AT_RESTART + " before the restart: the checkpoint held none");
      checkSums();
    } finally {
      SLOW.set(false);
      agent.destroyForcibly();
    }
  }

  // A retained checkpoint, of a cluster whose agent was a process of its own, into new clusters: with an embedded agent,
  // and without PulseDB.
  @Test
  void Checkpoint_OfAnotherCluster_IsRestoredWithAndWithoutPulse() throws Exception {
    final Path socket = dir.resolve("agent.sock");
    final Process agent = agent(socket);
    final String checkpoint;
    try {
      final Configuration config = configuration("pulse://" + socket);
      SLOW.set(true);
      try (MiniCluster cluster = start(config)) {
        final var graph = job(config).getStreamGraph().getJobGraph();
        cluster.submitJob(graph).get();
        checkpoint = awaitCheckpoint(cluster, graph.getJobID()).getExternalPath();
        cluster.cancelJob(graph.getJobID()).get();
        cluster.requestJobResult(graph.getJobID()).get();
      }
    } finally {
      SLOW.set(false);
      agent.destroyForcibly().waitFor();
    }
    for (final String uri : new String[] {"pulse://?mover=vmread", null}) {
      final Configuration config = configuration(uri);
      try (MiniCluster cluster = start(config)) {
        final var graph = job(config).getStreamGraph().getJobGraph();
        graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(checkpoint));
        assertTrue(cluster.executeJobBlocking(graph).isJobExecutionResult());
      }
      assertTrue(SEEN.get() <= NUMBERS - NUMBERS / 4, uri + ": " + SEEN + " numbers were seen: it began anew");
      checkSums();
      if (uri != null) assertTrue(persisted(uri) > 0, "nothing went through PulseDB");
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
