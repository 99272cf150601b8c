package org.pulsedb.kafka;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Records that are put into a Kafka Streams store as a processor does it, one at a time, without a broker: records a
 * second and how long one takes. PutBench DIR RECORDS VALUE_BYTES [URI]; prints one line of JSON. streams/bench.sh runs it.
 */
public final class PutBench {
  private PutBench() {}

  public static void main(final String[] args) throws Exception {
    final Path dir = Files.createDirectories(Path.of(args[0]));
    final int records = Integer.parseInt(args[1]);
    final byte[] value = new byte[Integer.parseInt(args[2])];
    final Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "puts");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
    config.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
    if (args.length > 3) {
      config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, PulseConfigSetter.class);
      config.put(PulseConfigSetter.URI, args[3]);
    }
    final Random random = new Random(1);
    final long[] nanos = new long[records];
    final MockProcessorContext<Void, Void> context =
        new MockProcessorContext<>(config, new TaskId(0, 0), dir.toFile());
    final KeyValueStore<byte[], byte[]> store = Stores.keyValueStoreBuilder(
        Stores.persistentKeyValueStore("puts"), Serdes.ByteArray(), Serdes.ByteArray())
        .withLoggingDisabled().withCachingDisabled().build();
    try (AutoCloseable closed = store::close) {
      store.init(context.getStateStoreContext(), store);
      final long begin = System.nanoTime();
      long before = begin;
      for (int i = 0; i < records; ++i) {
        random.nextBytes(value);
        store.put(ByteBuffer.allocate(8).putLong(random.nextLong()).array(), value);
        final long now = System.nanoTime();
        nanos[i] = now - before;
        before = now;
      }
      final double seconds = (before - begin) / 1e9;
      Arrays.sort(nanos);
      System.out.printf("{\"records_per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, "
              + "\"max_ms\": %.1f}%n", records / seconds, nanos[records / 2] / 1e3, nanos[records / 100 * 99] / 1e3,
          nanos[(int) (records * 0.999)] / 1e3, nanos[records - 1] / 1e6);
    }
  }
}
