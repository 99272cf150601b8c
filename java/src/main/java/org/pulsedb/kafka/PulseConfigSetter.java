package org.pulsedb.kafka;

import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.pulsedb.PulseEnv;
import org.rocksdb.Options;
import org.rocksdb.RocksDBException;

/**
 * Puts the state stores of a Kafka Streams application on PulseDB:
 *
 * <pre>{@code
 * config.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, PulseConfigSetter.class);
 * config.put(PulseConfigSetter.URI, "pulse:///run/pulse/agent.sock");
 * }</pre>
 *
 * <p>All stores of a process share one Env. An application that has a setter of its own calls
 * {@code options.setEnv(PulseEnv.shared(uri))} there instead.
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
      options.setEnv(PulseEnv.shared(uri.toString()));
    } catch (RocksDBException e) {
      throw new ConfigException(URI + "=" + uri + ": " + e.getMessage());
    }
  }

  /** Nothing: the Env is the process's. */
  @Override
  public void close(final String storeName, final Options options) {}
}
