package org.pulsedb;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.Test;

/** RocksJava's library has a zstd within, whose names are not to be those of other libraries' zstd. */
final class ZstdTest {
  private static native String wrong();

  @Test
  void LibraryWithZstd_LoadedAfterAnEnv_HasItsOwn() throws Exception {
    final String library = System.getProperty("pulsedb.test.library", "");
    assumeTrue(!library.isEmpty(), "java/tests.sh builds that library");
    try (PulseEnv env = PulseEnv.open("pulse://")) {
      System.load(library);
      assertNull(wrong());
      assertNotNull(env.counters());
    }
  }
}
