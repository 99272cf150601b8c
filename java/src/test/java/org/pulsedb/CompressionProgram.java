package org.pulsedb;

import java.nio.charset.StandardCharsets;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.CompactRangeOptions.BottommostLevelCompaction;
import org.rocksdb.CompressionOptions;
import org.rocksdb.CompressionType;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/**
 * CompressionProgram DIR URI DICTIONARY: fills and compacts a database with zstd, with a dictionary of so many bytes, and
 * prints the microseconds of compression on the agent's CPUs.
 */
public final class CompressionProgram {
  private CompressionProgram() {}

  private static byte[] bytes(final String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] value(final int i) {
    return bytes(("record " + i + " of service " + i % 7 + ", state " + i % 3 + ". ").repeat(12));
  }

  public static void main(final String[] args) throws Exception {
    RocksDB.loadLibrary();
    final int keys = 20000;
    try (PulseEnv env = PulseEnv.open(args[1]); CompressionOptions compression = new CompressionOptions();
        Options options = new Options().setCreateIfMissing(true).setEnv(env)) {
      compression.setMaxDictBytes(Integer.parseInt(args[2])).setEnabled(true);
      options.setCompressionType(CompressionType.ZSTD_COMPRESSION).setCompressionOptions(compression);
      env.place(options);
      try (RocksDB db = RocksDB.open(options, args[0]);
          FlushOptions wait = new FlushOptions().setWaitForFlush(true);
          CompactRangeOptions all =
              new CompactRangeOptions().setBottommostLevelCompaction(BottommostLevelCompaction.kForce)) {
        for (int i = 0; i < keys; ++i) db.put(bytes(String.format("key%08d", i)), value(i));
        db.flush(wait);
        db.compactRange(null, null, null, all);
        for (int i = 0; i < keys; ++i) {
          if (!java.util.Arrays.equals(value(i), db.get(bytes(String.format("key%08d", i))))) {
            throw new IllegalStateException("key " + i + " is not what was put");
          }
        }
      }
      System.out.println("on the agent: " + env.counters().get("pulse.compression.on_agent.cpu.micros"));
    }
  }
}
