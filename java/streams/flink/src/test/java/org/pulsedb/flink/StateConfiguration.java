package org.pulsedb.flink;

import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;

/** What jobs with their state in RocksDB have in common here: checkpoints in files, and restarts. */
final class StateConfiguration {
  private StateConfiguration() {}

  static Configuration in(final Path dir) {
    final Configuration config = new Configuration();
    config.setString("state.backend.type", "rocksdb");
    config.setString("state.backend.rocksdb.localdir", dir.resolve("local").toString());
    config.setString("execution.checkpointing.incremental", "true");
    config.setString("execution.checkpointing.storage", "filesystem");
    config.setString("execution.checkpointing.dir", dir.resolve("checkpoints").toUri().toString());
    config.setString("restart-strategy.type", "fixed-delay");
    config.setString("restart-strategy.fixed-delay.attempts", "10");
    config.setString("heartbeat.interval", "1000");
    config.setString("heartbeat.timeout", "60000");
    return config;
  }
}
