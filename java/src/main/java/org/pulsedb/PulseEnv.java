package org.pulsedb;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.PulseEnvBase;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/**
 * An Env of stock RocksJava whose compactions and flushes have their I/O done by a PulseDB agent.
 *
 * <pre>{@code
 * try (PulseEnv env = PulseEnv.open("pulse://?agent_cpus=3");
 *      Options options = new Options().setCreateIfMissing(true).setEnv(env);
 *      RocksDB db = RocksDB.open(options, "/data/db")) {
 *   ...
 * }
 * }</pre>
 *
 * <p>The first one attaches PulseDB's plug-in to the native library of the rocksdbjni in use; a version that there is no
 * plug-in for is refused by name. Files are as RocksDB writes them: a database may be opened with and without it.
 *
 * <p>Close databases first, then the Env that they are on. Thread-safe.
 */
public final class PulseEnv extends PulseEnvBase {
  private static final Map<String, PulseEnv> SHARED = new ConcurrentHashMap<>();

  private boolean closed;  // the native Env is gone

  private PulseEnv(final long handle) {
    super(handle);
  }

  /**
   * Opens an Env.
   *
   * @param uri such as {@code pulse://?agent_cpus=3} for an agent in this process, or {@code pulse:///run/pulse/agent.sock}
   *     for one of its own; docs/reference/options.md lists what may stand in it
   * @throws RocksDBException what is wrong with the URI, the agent, or the version of RocksDB
   */
  public static PulseEnv open(final String uri) throws RocksDBException {
    Objects.requireNonNull(uri, "uri");
    PulseNative.load();
    return new PulseEnv(PulseNative.open(uri.getBytes(StandardCharsets.UTF_8)));
  }

  /**
   * The one Env of this process for a URI: opened by the first call, never closed, also not by {@link #close}. For
   * programs that open many databases, such as Kafka Streams or Flink, so that these share one agent.
   */
  public static PulseEnv shared(final String uri) throws RocksDBException {
    synchronized (SHARED) {
      PulseEnv env = SHARED.get(uri);
      if (env == null) {
        env = open(uri);
        env.disOwnNativeHandle();
        SHARED.put(uri, env);
      }
      return env;
    }
  }

  /**
   * Sets up what {@code placement=whole}, {@code placement=adaptive}, {@code flushes=} and {@code compression=agent} of
   * the URI need. Once, after {@code options.setEnv(env)} and before the database is opened; other URIs need no call.
   *
   * <p>It adds a native listener to the options. So set listeners before, since {@code setListeners} would remove it,
   * and do not call {@code options.listeners()} afterwards: RocksJava takes each listener for one of Java's, and may
   * crash.
   */
  public void place(final Options options) throws RocksDBException {
    synchronized (this) {
      checkOpen();
      PulseNative.place(handleOf(options));
    }
  }

  /** The same for a database with several column families, those that it is opened with. */
  public void place(final DBOptions options, final List<ColumnFamilyDescriptor> families)
      throws RocksDBException {
    final byte[][] names = new byte[families.size()][];
    final long[] handles = new long[families.size()];
    for (int i = 0; i < names.length; ++i) {
      names[i] = families.get(i).getName();
      handles[i] = handleOf(families.get(i).getOptions());
    }
    synchronized (this) {
      checkOpen();
      PulseNative.placeFamilies(handleOf(options), names, handles);
    }
  }

  /**
   * Sets up what {@code compression=agent} needs for a column family that {@link #place} is not told of. Before the family
   * is opened; other URIs need no call.
   */
  public void compress(final ColumnFamilyOptions options) throws RocksDBException {
    synchronized (this) {
      checkOpen();
      PulseNative.compress(nativeHandle_, handleOf(options));
    }
  }

  /** What went through the agent, by name: bytes written and fetched, waits, lost agents (docs/reference/metrics.md). */
  public Map<String, Long> counters() throws RocksDBException {
    final String[] all;
    synchronized (this) {
      checkOpen();
      all = PulseNative.counters(nativeHandle_);
    }
    final Map<String, Long> counters = new TreeMap<>();
    for (int i = 0; i + 1 < all.length; i += 2) {
      counters.put(all[i], Long.parseUnsignedLong(all[i + 1]));
    }
    return counters;
  }

  // Under this object's lock, as what needs it open.
  private void checkOpen() {
    if (closed) throw new IllegalStateException("this PulseEnv is closed");
  }

  @Override
  protected synchronized void disposeInternal(final long handle) {
    closed = true;
    try {
      PulseNative.close(handle);
    } catch (RocksDBException e) {
      throw new IllegalStateException(e);  // it was open, so PulseDB is attached
    }
  }

  static {
    RocksDB.loadLibrary();
  }
}
