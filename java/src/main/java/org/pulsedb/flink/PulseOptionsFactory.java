package org.pulsedb.flink;

import java.util.Collection;
import java.util.Collections;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.state.rocksdb.ConfigurableRocksDBOptionsFactory;
import org.apache.flink.state.rocksdb.RocksDBOptionsFactory;
import org.pulsedb.PulseEnv;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.RocksDBException;

/**
 * Puts the state of Flink's RocksDB back-end on PulseDB:
 *
 * <pre>
 * state.backend.rocksdb.options-factory: org.pulsedb.flink.PulseOptionsFactory
 * state.backend.rocksdb.pulsedb.uri: pulse:///run/pulse/agent.sock
 * </pre>
 *
 * <p>All back-ends of a task manager share one Env. The package has to be loaded by the class loader that loads RocksDB's
 * classes: put it beside them, into Flink's lib directory.
 */
public class PulseOptionsFactory implements ConfigurableRocksDBOptionsFactory {
  private static final long serialVersionUID = 1L;

  /** What to open; without it, a job cannot start. */
  public static final ConfigOption<String> URI = ConfigOptions.key("state.backend.rocksdb.pulsedb.uri").stringType()
      .noDefaultValue().withDescription("PulseDB's URI, such as pulse://?agent_cpus=1");

  private String uri;

  @Override
  public RocksDBOptionsFactory configure(final ReadableConfig configuration) {
    uri = configuration.getOptional(URI).orElseThrow(
        () -> new IllegalArgumentException("PulseOptionsFactory needs the configuration " + URI.key()));
    return this;
  }

  @Override
  public DBOptions createDBOptions(final DBOptions options, final Collection<AutoCloseable> handlesToClose) {
    try {
      final PulseEnv env = PulseEnv.shared(uri);
      options.setEnv(env);
      // The families come later, and an agent of its own must know a family before it takes its compactions. An embedded
      // one does them, and flushes, on the database's own threads.
      if (uri.equals("pulse://") || uri.startsWith("pulse://?")) env.place(options, Collections.emptyList());
    } catch (RocksDBException e) {
      throw new IllegalArgumentException(URI.key() + "=" + uri + ": " + e.getMessage(), e);
    }
    return options;
  }

  @Override
  public ColumnFamilyOptions createColumnOptions(
      final ColumnFamilyOptions options, final Collection<AutoCloseable> handlesToClose) {
    try {
      PulseEnv.shared(uri).compress(options);
    } catch (RocksDBException e) {
      throw new IllegalArgumentException(URI.key() + "=" + uri + ": " + e.getMessage(), e);
    }
    return options;
  }
}
