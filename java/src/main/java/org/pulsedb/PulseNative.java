package org.pulsedb;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.stream.Stream;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * The native half: libpulse_java.so, which needs no RocksDB, and beside it a plug-in for each version of RocksDB. They are
 * in the jar, and are unpacked into a directory below java.io.tmpdir, or lie in the directory that the property
 * pulsedb.library.path names.
 */
final class PulseNative {
  private static final String RESOURCES = "/org/pulsedb/native/linux-x86_64/";
  private static boolean loaded;
  // Needed until a plug-in is attached; then, or as the JVM ends, deleted.
  private static final List<Path> unpacked = new ArrayList<>();

  private PulseNative() {}

  static synchronized void load() throws RocksDBException {
    checkClassLoader();
    final String given = System.getProperty("pulsedb.library.path");
    if (!loaded) {
      if (!"Linux".equals(System.getProperty("os.name")) || !"amd64".equals(System.getProperty("os.arch"))) {
        throw new RocksDBException("PulseDB's native libraries are for Linux on amd64, not for "
            + System.getProperty("os.name") + " on " + System.getProperty("os.arch"));
      }
      try {
        if (given != null) {
          System.load(Path.of(given).toAbsolutePath().resolve("libpulse_java.so").toString());
        } else {
          loadUnpacked();
        }
      } catch (IOException | UnsatisfiedLinkError e) {
        deleteUnpacked();
        throw new RocksDBException("cannot load PulseDB's native library"
            + (given == null ? " from its jar, unpacked below java.io.tmpdir="
                + System.getProperty("java.io.tmpdir") : " from pulsedb.library.path=" + given) + ": " + e.getMessage()
            + advice(e.getMessage(), given == null));
      }
      loaded = true;
    }
    try {
      attach();
    } catch (RocksDBException e) {
      throw new RocksDBException(e.getMessage() + advice(e.getMessage(), given == null));
    }
    deleteUnpacked();
  }

  // A second copy of the jar, below the loader of the first, would have native libraries and Envs of its own, which
  // stay when its loader goes; and a lone copy there cannot make an Env at all, whose constructor is not public.
  private static void checkClassLoader() throws RocksDBException {
    final ClassLoader ours = PulseNative.class.getClassLoader();
    final ClassLoader theirs = RocksDB.class.getClassLoader();
    if (ours != theirs) {
      throw new RocksDBException("PulseDB's classes are loaded by another class loader (" + ours + ") than RocksDB's ("
          + theirs + "): put PulseDB's jar beside RocksJava's and leave it out of the application's "
          + "(Maven: scope provided; Flink: the jar is in lib alone)");
    }
  }

  // What helps where the dynamic loader says `error`; empty where nothing is known.
  static String advice(final String error, final boolean unpacked) {
    if (error == null) return "";
    if (Stream.of("GLIBC_", "GLIBCXX_", "CXXABI_", "libstdc++", "ld-linux", "Error relocating")
            .anyMatch(error::contains)) {
      return "; PulseDB's native libraries need glibc 2.34 or newer (not musl) and libstdc++ of GCC 12 or newer";
    }
    if (unpacked && Stream.of("failed to map segment", "Operation not permitted").anyMatch(error::contains)) {
      return "; where programs may not be loaded from there, unpack the jar's " + RESOURCES.substring(1)
          + " and name that directory with -Dpulsedb.library.path";
    }
    return "";
  }

  private static void loadUnpacked() throws IOException {
    final Path directory = Files.createTempDirectory("pulsedb");
    keepUntilExit(directory);
    for (final String name : libraries()) {
      final Path to = directory.resolve(name);
      keepUntilExit(to);
      try (InputStream from = PulseNative.class.getResourceAsStream(RESOURCES + name)) {
        if (from == null) throw new IOException(name + " is missing in the jar");
        Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
      }
    }
    System.load(directory.resolve("libpulse_java.so").toString());
  }

  private static void keepUntilExit(final Path path) {
    unpacked.add(0, path);  // a directory after what is in it
    path.toFile().deleteOnExit();
  }

  private static void deleteUnpacked() {
    for (final Path path : unpacked) path.toFile().delete();  // what cannot be deleted stays
    unpacked.clear();
  }

  private static List<String> libraries() throws IOException {
    try (InputStream list = PulseNative.class.getResourceAsStream(RESOURCES + "libraries.txt")) {
      if (list == null) throw new IOException("this jar has no native libraries; set pulsedb.library.path");
      final List<String> names = new ArrayList<>();
      try (Scanner lines = new Scanner(list, "UTF-8")) {
        while (lines.hasNextLine()) names.add(lines.nextLine());
      }
      return names;
    }
  }

  private static native void attach() throws RocksDBException;

  // Called by the native half.
  private static RocksDBException error(final byte[] utf8) {
    return new RocksDBException(new String(utf8, StandardCharsets.UTF_8));
  }

  // `uri`: in UTF-8.
  static native long open(byte[] uri) throws RocksDBException;

  static native void close(long env) throws RocksDBException;

  static native void place(long options) throws RocksDBException;

  static native void placeFamilies(long dbOptions, byte[][] names, long[] options) throws RocksDBException;

  static native void compress(long env, long options) throws RocksDBException;

  static native String[] counters(long env) throws RocksDBException;
}
