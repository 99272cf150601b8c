package org.rocksdb;

/**
 * What gives a class outside this package an Env with a native handle: Env's constructor is visible here only. Load it
 * with the class loader that RocksDB's classes have. Use {@link org.pulsedb.PulseEnv}.
 */
public abstract class PulseEnvBase extends Env {
  protected PulseEnvBase(final long nativeHandle) {
    super(nativeHandle);
  }

  /** The native handle of any object of RocksDB's. */
  protected static long handleOf(final RocksObject object) {
    return object.nativeHandle_;
  }
}
