package org.pulsedb.kafka;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Adds numbers up by key, from topic "numbers" to topic "sums", in a store "totals", whose values are the sum and bytes
 * that follow from it. As a program: Counter BROKERS DIR [URI], until it is killed.
 */
public final class Counter {
  static final int BYTES = 2048;

  private Counter() {}

  private static byte[] valueOf(final long sum) {
    final byte[] value = new byte[BYTES];
    new Random(sum).nextBytes(value);
    ByteBuffer.wrap(value).putLong(sum);
    return value;
  }

  /** The sum in a value of the store, which is checked. */
  static long sumIn(final byte[] value) {
    final long sum = ByteBuffer.wrap(value).getLong();
    if (!Arrays.equals(value, valueOf(sum))) throw new IllegalStateException("a value is not what was written");
    return sum;
  }

  /** `uri`: null for RocksDB as it is. */
  static KafkaStreams streams(final String brokers, final Path dir, final String uri) throws Exception {
    final Properties config = new Properties();
    config.put(StreamsConfig.APPLICATION_ID_CONFIG, "counter");
    config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
    config.put(StreamsConfig.STATE_DIR_CONFIG, Files.createDirectories(dir).toString());
    config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
    config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    config.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallMemtables.class);
    if (uri != null) config.put(PulseConfigSetter.URI, uri);
    final StreamsBuilder builder = new StreamsBuilder();
    final KStream<String, Long> numbers = builder.stream(
        "numbers", org.apache.kafka.streams.kstream.Consumed.with(Serdes.String(), Serdes.Long()));
    numbers.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
        .aggregate(() -> valueOf(0), (key, number, value) -> valueOf(sumIn(value) + number),
            Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("totals")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.ByteArray()))
        .toStream()
        .mapValues(Counter::sumIn)
        .to("sums", org.apache.kafka.streams.kstream.Produced.with(Serdes.String(), Serdes.Long()));
    return new KafkaStreams(builder.build(), config);
  }

  public static void main(final String[] args) throws Exception {
    final KafkaStreams streams = streams(args[0], Path.of(args[1]), args.length > 2 ? args[2] : null);
    streams.start();
    System.out.println("started");
    new CountDownLatch(1).await();
  }
}
