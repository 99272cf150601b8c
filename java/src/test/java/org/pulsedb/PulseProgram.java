package org.pulsedb;

import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;

/** A program that uses PulseDB: PulseProgram DIR URI opens a database. It ends with 1 where it cannot, and says why. */
public final class PulseProgram {
  private PulseProgram() {}

  public static void main(final String[] args) throws Exception {
    RocksDB.loadLibrary();
    try (PulseEnv env = PulseEnv.open(args[1]);
        Options options = new Options().setCreateIfMissing(true).setEnv(env);
        RocksDB db = RocksDB.open(options, args[0])) {
      db.put("a".getBytes(), "b".getBytes());
    } catch (RocksDBException e) {
      System.out.println("refused: " + e.getMessage());
      System.exit(1);
    }
    System.out.println("all there");
  }
}
