package org.pulsedb;

import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/** A program that knows nothing of PulseDB: writes, compacts, reads, and prints the names of its threads. */
public final class PlainProgram {
  private PlainProgram() {}

  public static void main(final String[] args) throws Exception {
    RocksDB.loadLibrary();
    try (Options options = new Options().setCreateIfMissing(true);
        RocksDB db = RocksDB.open(options, args[0]);
        FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
      for (int i = 0; i < 2000; ++i) db.put(("key" + i).getBytes(), new byte[500]);
      db.flush(flush);
      db.compactRange();
      for (int i = 0; i < 2000; ++i) {
        if (db.get(("key" + i).getBytes()).length != 500) throw new IllegalStateException("key" + i);
      }
      try (Stream<Path> tasks = Files.list(Path.of("/proc/self/task"))) {
        for (final Path task : (Iterable<Path>) tasks::iterator) {
          System.out.println("thread " + Files.readString(task.resolve("comm")).trim());
        }
      }
    }
    System.out.println("all there");
    if (Boolean.getBoolean("plain.twice")) openByAnotherLoader();
  }

  /** Loads RocksJava, and with it its library, a second time. */
  private static void openByAnotherLoader() throws Exception {
    final URL jar = RocksDB.class.getProtectionDomain().getCodeSource().getLocation();
    final ClassLoader loader = new URLClassLoader(new URL[] {jar}, ClassLoader.getPlatformClassLoader());
    Class.forName("org.rocksdb.RocksDB", true, loader).getMethod("loadLibrary").invoke(null);
    Class.forName("org.rocksdb.Options", true, loader).getConstructor().newInstance();
    System.out.println("opened twice");
  }
}
