package org.pulsedb.flink;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Records whose state Flink keeps in its RocksDB back-end, in a mini cluster: records a second, how long the state of one
 * takes to be set, and how long the job takes to go on after its task manager was killed. StateBench DIR RECORDS
 * VALUE_BYTES [URI]; prints one line of JSON. -Dcheckpoint.seconds: between checkpoints (10). streams/bench.sh runs it.
 */
public final class StateBench {
  private static int records;
  private static int valueBytes;
  // Of the job that runs; the mini cluster is in this process.
  private static long[] nanos;
  private static final AtomicInteger SEEN = new AtomicInteger();
  private static volatile boolean ended;
  private static volatile long begunAt;
  private static volatile long endedAt;
  private static volatile long killedAt;
  private static volatile long againAt;

  private StateBench() {}

  /** Sets the state of each key to a value that no other has. */
  private static final class Put extends KeyedProcessFunction<Long, Long, Long> {
    private static final long serialVersionUID = 1L;
    private transient ValueState<byte[]> state;
    private transient Random random;
    private transient byte[] value;
    private transient int attempt;

    @Override
    public void open(final OpenContext context) {
      state = getRuntimeContext().getState(
          new ValueStateDescriptor<>("value", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
      random = new Random(1);
      value = new byte[valueBytes];
      attempt = getRuntimeContext().getTaskInfo().getAttemptNumber();
    }

    @Override
    public void processElement(final Long number, final Context context, final Collector<Long> out) throws Exception {
      random.nextBytes(value);
      final long before = System.nanoTime();
      state.update(value);
      final long after = System.nanoTime();
      if (ended) {
        if (attempt > 0 && againAt == 0) againAt = after;
        Thread.sleep(1);  // so that the job lasts until its task manager is killed, and longer
        return;
      }
      final int seen = SEEN.getAndIncrement();
      if (seen == 0) begunAt = before;
      nanos[seen] = after - before;
      if (seen == records - 1) {
        endedAt = after;
        ended = true;
      }
    }
  }

  private static Configuration configuration(final Path dir, final String uri) {
    final Configuration config = StateConfiguration.in(dir);
    if (uri != null) {
      config.setString("state.backend.rocksdb.options-factory", PulseOptionsFactory.class.getName());
      config.set(PulseOptionsFactory.URI, uri);
    }
    config.setString("taskmanager.memory.managed.size", "256mb");
    config.setString("execution.checkpointing.interval", Integer.getInteger("checkpoint.seconds", 10) + " s");
    config.setString("restart-strategy.fixed-delay.delay", "0 ms");
    return config;
  }

  public static void main(final String[] args) throws Exception {
    final Path dir = Files.createDirectories(Path.of(args[0]));
    records = Integer.parseInt(args[1]);
    valueBytes = Integer.parseInt(args[2]);
    nanos = new long[records];
    final Configuration config = configuration(dir, args.length > 3 ? args[3] : null);
    final StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(config);
    env.setParallelism(1);
    // Multiplied by an odd number, so that keys come in no order. Ten times as many as are timed: the rest is slow.
    env.fromSequence(1, 10L * records).keyBy(number -> number * 0x9E3779B97F4A7C15L).process(new Put())
        .sinkTo(new DiscardingSink<>());
    try (MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(config)
             .setNumTaskManagers(1).setNumSlotsPerTaskManager(1).build())) {
      cluster.start();
      final var graph = env.getStreamGraph().getJobGraph();
      cluster.submitJob(graph).get();
      while (!ended) Thread.sleep(20);
      cluster.triggerCheckpoint(graph.getJobID(), CheckpointType.INCREMENTAL).get();
      killedAt = System.nanoTime();
      cluster.terminateTaskManager(0).get();
      cluster.startTaskManager();
      while (againAt == 0) Thread.sleep(5);
      cluster.cancelJob(graph.getJobID()).get();
    }
    final double seconds = (endedAt - begunAt) / 1e9;
    Arrays.sort(nanos);
    System.out.printf("{\"records_per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
            + "\"max_ms\": %.1f, \"recovery_s\": %.2f}%n", records / seconds, nanos[records / 2] / 1e3,
        nanos[records / 100 * 99] / 1e3, nanos[(int) (records * 0.999)] / 1e3, nanos[records - 1] / 1e6,
        (againAt - killedAt) / 1e9);
  }
}
