package org.pulsedb.kafka;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.pulsedb.PulseEnv;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * Puts the state stores of a Kafka Streams application on PulseDB:
 *
 * <pre>{@code
 * config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, PulseConfigSetter.class);
 * config.put(PulseConfigSetter.URI, "pulse:///run/pulse/agent.sock");
 * }</pre>
 *
 * <p>All stores of a process share one Env. An application that has a setter of its own calls {@link #apply} there.
 */
public class PulseConfigSetter implements RocksDBConfigSetter {
  /** The configuration with the URI; without it, the stores cannot be opened. */
  public static final String URI = "pulsedb.uri";

  @Override
  public void setConfig(final String storeName, final Options options, final Map<String, Object> configs) {
    final Object uri = configs.get(URI);
    if (uri == null) {
      throw new ConfigException("PulseConfigSetter needs the configuration " + URI + ", such as pulse://?agent_cpus=1");
    }
    try {
      apply(options, uri.toString());
    } catch (RocksDBException e) {
      throw new ConfigException(URI + "=" + uri + ": " + e.getMessage());
    }
  }

  /**
   * Puts a store on PulseDB, with the URI's {@code placement=}, {@code flushes=} and {@code compression=}.
   *
   * @param options those that Kafka Streams gives to a RocksDBConfigSetter, as the setter leaves them
   */
  public static void apply(final Options options, final String uri) throws RocksDBException {
    final PulseEnv env = PulseEnv.shared(uri);
    options.setEnv(env);
    // Kafka Streams opens its stores with two objects inside this one, whose own native options nobody reads.
    final DBOptions db = (DBOptions) inside(options, "dbOptions");
    final ColumnFamilyOptions family = (ColumnFamilyOptions) inside(options, "columnFamilyOptions");
    if (db == null || family == null) {
      env.place(options);
      return;
    }
    // Stores with timestamps have their records in a family of their own.
    env.place(db, List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, family),
        new ColumnFamilyDescriptor("keyValueWithTimestamp".getBytes(StandardCharsets.UTF_8), family)));
  }

  /** Null for options that are what they seem. */
  private static Object inside(final Options options, final String name) {
    if (options.getClass() == Options.class) return null;
    try {
      final Field field = options.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(options);
    } catch (ReflectiveOperationException e) {
      throw new ConfigException(options.getClass().getName() + " has no " + name
          + ": this version of Kafka Streams is not known to PulseDB's RocksDBConfigSetter");
    }
  }

  /** Nothing: the Env is the process's. */
  @Override
  public void close(final String storeName, final Options options) {}
}
