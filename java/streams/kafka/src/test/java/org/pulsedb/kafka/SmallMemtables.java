package org.pulsedb.kafka;

import java.util.Map;
import org.rocksdb.Options;

/** With memtables that a test fills many times: RocksDB then writes tables, and compacts them. */
public final class SmallMemtables extends PulseConfigSetter {
  static final int BYTES = 256 << 10;

  @Override
  public void setConfig(final String storeName, final Options options, final Map<String, Object> configs) {
    options.setWriteBufferSize(BYTES);
    if (configs.get(URI) != null) super.setConfig(storeName, options, configs);
  }
}
