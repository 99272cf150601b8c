package org.pulsedb;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Env;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.Priority;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

final class PulseEnvTest {
  private static final int KEYS = 3000;
  @TempDir Path dir;

  private static byte[] key(final int i) {
    return String.format("key%08d", i).getBytes(StandardCharsets.UTF_8);
  }

  private static byte[] value(final int i) {
    final byte[] value = new byte[400];
    new Random(i).nextBytes(value);
    return value;
  }

  private static void write(final RocksDB db, final int begin, final int end) throws RocksDBException {
    for (int i = begin; i < end; ++i) db.put(key(i), value(i));
  }

  private static void flush(final RocksDB db) throws RocksDBException {
    try (FlushOptions wait = new FlushOptions().setWaitForFlush(true)) {
      db.flush(wait);
    }
  }

  // With the default Env.
  private void checkWithoutPulse(final int keys) throws RocksDBException {
    try (Options options = new Options(); RocksDB db = RocksDB.openReadOnly(options, dir.toString());
        RocksIterator all = db.newIterator()) {
      int at = 0;
      for (all.seekToFirst(); all.isValid(); all.next(), ++at) {
        assertArrayEquals(key(at), all.key());
        assertArrayEquals(value(at), all.value());
      }
      all.status();
      assertEquals(keys, at);
    }
  }

  @Test
  void Database_WrittenOnPulse_IsReadWithoutIt() throws Exception {
    try (PulseEnv env = PulseEnv.open("pulse://"); Options options = new Options()) {
      options.setCreateIfMissing(true).setEnv(env);
      try (RocksDB db = RocksDB.open(options, dir.toString())) {
        write(db, 0, KEYS / 2);
        flush(db);
        write(db, KEYS / 2, KEYS);
        flush(db);
        db.compactRange();
        assertArrayEquals(value(7), db.get(key(7)));
      }
      assertTrue(env.counters().get("pulse.persisted.bytes") > KEYS * 400L, env.counters().toString());
    }
    checkWithoutPulse(KEYS);
  }

  @Test
  void Open_WrongUri_SaysWhatIsWrong() {
    final RocksDBException option =
        assertThrows(RocksDBException.class, () -> PulseEnv.open("pulse://?placment=split"));
    assertTrue(option.getMessage().contains("placment"), option.getMessage());
    final RocksDBException agent =
        assertThrows(RocksDBException.class, () -> PulseEnv.open("pulse://" + dir + "/no.sock"));
    assertTrue(agent.getMessage().contains("no.sock"), agent.getMessage());
  }

  @Test
  void Open_UriBeyondTheBasicPlane_NamesThatPath() throws Exception {
    final String name = "\uD83D\uDC18";  // one character, with four bytes of UTF-8
    final RocksDBException agent =
        assertThrows(RocksDBException.class, () -> PulseEnv.open("pulse://" + dir + "/" + name + ".sock"));
    assertTrue(agent.getMessage().contains(name + ".sock"), agent.getMessage());
    PulseEnv.open("pulse://?trace=" + dir + "/" + name).close();
    try (Stream<Path> files = Files.list(dir)) {
      // The bytes of the name, whatever the locale makes of them.
      final List<String> uris = files.map(file -> file.toUri().toString()).collect(Collectors.toList());
      assertTrue(uris.size() == 1 && uris.get(0).endsWith("/%F0%9F%90%98"), uris.toString());
    }
    final RocksDBException zero = assertThrows(RocksDBException.class, () -> PulseEnv.open("pulse://?trace=/\0"));
    assertTrue(zero.getMessage().contains("zero byte"), zero.getMessage());
  }

  @Test
  void Shared_SameUri_IsOneEnvThatStaysOpen() throws Exception {
    final PulseEnv env = PulseEnv.shared("pulse://?mover=vmread");
    env.close();
    assertSame(env, PulseEnv.shared("pulse://?mover=vmread"));
    try (Options options = new Options().setCreateIfMissing(true).setEnv(env);
        RocksDB db = RocksDB.open(options, dir.toString())) {
      write(db, 0, 100);
      flush(db);
    }
    checkWithoutPulse(100);
  }

  @Test
  void Env_FunctionsOfRocksJava_Work() throws Exception {
    try (PulseEnv env = PulseEnv.open("pulse://")) {
      env.setBackgroundThreads(3, Priority.LOW);
      assertEquals(3, env.getBackgroundThreads(Priority.LOW));
      assertNotNull(env.getThreadList());
      assertTrue(Env.getDefault() != env);
    }
  }

  @Test
  void Place_WholeCompactions_OptionsAreAccepted() throws Exception {
    try (PulseEnv env = PulseEnv.open("pulse://?agent_cpus=0&placement=adaptive&flushes=adaptive&compression=agent");
        Options options = new Options().setCreateIfMissing(true).setEnv(env)) {
      env.place(options);
      try (RocksDB db = RocksDB.open(options, dir.toString())) {
        write(db, 0, 500);
        flush(db);
        write(db, 500, 1000);
        db.compactRange();
      }
    }
    checkWithoutPulse(1000);
  }

  @Test
  void Counters_ClosedEnv_IsAnError() throws Exception {
    final PulseEnv env = PulseEnv.open("pulse://");
    env.close();
    assertThrows(IllegalStateException.class, env::counters);
    try (ColumnFamilyOptions family = new ColumnFamilyOptions(); Options options = new Options();
        DBOptions db = new DBOptions()) {
      assertThrows(IllegalStateException.class, () -> env.compress(family));
      // Not with the closed Env: where nothing is checked, it would be used.
      assertThrows(IllegalStateException.class, () -> env.place(options));
      assertThrows(IllegalStateException.class, () -> env.place(db, List.of()));
    }
    assertThrows(NullPointerException.class, () -> PulseEnv.open(null));
  }

  // As of a jar within a Flink job's, beside the one in lib.
  @Test
  void Open_SecondCopyOfTheClasses_IsRefusedByName() throws Exception {
    final URL[] classes = {PulseEnv.class.getProtectionDomain().getCodeSource().getLocation()};
    try (URLClassLoader copy = new URLClassLoader(classes, PulseEnv.class.getClassLoader()) {
      @Override
      protected Class<?> loadClass(final String name, final boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith("org.pulsedb.")) return super.loadClass(name, resolve);
        final Class<?> loaded = findLoadedClass(name);
        return loaded == null ? findClass(name) : loaded;
      }
    }) {
      final Method open = Class.forName(PulseEnv.class.getName(), true, copy).getMethod("open", String.class);
      final Throwable refused =
          assertThrows(InvocationTargetException.class, () -> open.invoke(null, "pulse://")).getCause();
      assertTrue(refused instanceof RocksDBException, refused.toString());
      assertTrue(refused.getMessage().contains("another class loader"), refused.getMessage());
    }
  }

  @Test
  void Advice_ErrorOfTheLoader_FitsIt() {
    for (final String error : List.of("/lib/libc.so.6: version `GLIBC_2.34' not found",
        "/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found",
        "Error loading shared library ld-linux-x86-64.so.2: No such file or directory")) {
      assertTrue(PulseNative.advice(error, true).contains("glibc 2.34"), error);
      assertTrue(PulseNative.advice(error, false).contains("glibc 2.34"), error);
    }
    final String noexec = "libpulse_java.so: failed to map segment from shared object";
    assertTrue(PulseNative.advice(noexec, true).contains("-Dpulsedb.library.path"));
    for (final String error : List.of("libpulse_java.so: file too short", "No space left on device")) {
      assertEquals("", PulseNative.advice(error, true));
    }
    assertEquals("", PulseNative.advice(noexec, false));
    assertEquals("", PulseNative.advice(null, true));
  }

  @Test
  void Place_FamilyNameWithZeroByte_IsRefused() throws Exception {
    try (PulseEnv env = PulseEnv.open("pulse://"); DBOptions options = new DBOptions();
        ColumnFamilyOptions family = new ColumnFamilyOptions()) {
      options.setEnv(env);
      final byte[] name = {'a', 0, 'b'};
      assertThrows(RocksDBException.class,
          () -> env.place(options, Arrays.asList(new ColumnFamilyDescriptor(name, family))));
    }
  }

  @Test
  void Place_OtherEnv_IsRefused() throws Exception {
    try (PulseEnv env = PulseEnv.open("pulse://"); Options options = new Options()) {
      assertThrows(RocksDBException.class, () -> env.place(options));
    }
  }

  @Test
  void Place_SeveralFamilies_AreOpened() throws Exception {
    final byte[] second = "second".getBytes(StandardCharsets.UTF_8);
    try (PulseEnv env = PulseEnv.open("pulse://?agent_cpus=0&compression=agent");
        DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
        ColumnFamilyOptions one = new ColumnFamilyOptions();
        ColumnFamilyOptions two = new ColumnFamilyOptions()) {
      options.setEnv(env);
      final List<ColumnFamilyDescriptor> families = Arrays.asList(
          new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, one), new ColumnFamilyDescriptor(second, two));
      env.place(options, families);
      final List<ColumnFamilyHandle> handles = new ArrayList<>();
      try (RocksDB db = RocksDB.open(options, dir.toString(), families, handles)) {
        for (int i = 0; i < 500; ++i) db.put(handles.get(1), key(i), value(i));
        try (FlushOptions wait = new FlushOptions().setWaitForFlush(true)) {
          db.flush(wait, handles.get(1));
        }
        db.compactRange(handles.get(1));
        assertArrayEquals(value(3), db.get(handles.get(1), key(3)));
        for (final ColumnFamilyHandle handle : handles) handle.close();
      }
    }
  }

  private static Path pulse() {
    final Path pulse = Path.of(System.getProperty("pulse.program"));
    assumeTrue(Files.isExecutable(pulse), pulse + " is not built");
    return pulse;
  }

  @Test
  void Agent_KilledWhileWriting_DatabaseGoesOn() throws Exception {
    final Path socket = dir.resolve("agent.sock");
    final Process agent = new ProcessBuilder(pulse().toString(), "agent", "--socket", socket.toString())
        .redirectErrorStream(true).redirectOutput(dir.resolve("agent.log").toFile()).start();
    try {
      while (!Files.exists(socket)) {
        assertTrue(agent.isAlive(), () -> "the agent has ended");
        Thread.sleep(20);
      }
      try (PulseEnv env = PulseEnv.open("pulse://" + socket); Options options = new Options()) {
        options.setCreateIfMissing(true).setEnv(env).setWriteBufferSize(64 << 10);
        try (RocksDB db = RocksDB.open(options, dir.resolve("db").toString())) {
          write(db, 0, KEYS / 2);
          agent.destroyForcibly().waitFor();
          write(db, KEYS / 2, KEYS);
          flush(db);
          db.compactRange();
          for (int i = 0; i < KEYS; ++i) assertArrayEquals(value(i), db.get(key(i)));
        }
      }
      dir = dir.resolve("db");
      checkWithoutPulse(KEYS);
    } finally {
      agent.destroyForcibly();
    }
  }

  // --- In a JVM of its own.

  private String runJava(final String uri, final int exitCode, final String... options) throws Exception {
    return run(uri, exitCode, List.of(options), List.of(PlainProgram.class.getName(), dir.resolve("plain").toString()));
  }

  // `uri`: in the environment; null: not there.
  private String run(final String uri, final int exitCode, final List<String> options, final List<String> program)
      throws Exception {
    return run(uri, exitCode, List.of(), options, program);
  }

  // `before`: a command that starts the JVM.
  private String run(final String uri, final int exitCode, final List<String> before, final List<String> options,
      final List<String> program) throws Exception {
    final List<String> command = new ArrayList<>(before);
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(options);
    command.addAll(Arrays.asList("-cp", System.getProperty("java.class.path")));
    command.addAll(program);
    final ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    final File output = dir.resolve("output").toFile();
    builder.redirectOutput(output);
    if (uri != null) builder.environment().put("PULSE_URI", uri);
    final Process process = builder.start();
    assertTrue(process.waitFor(300, TimeUnit.SECONDS), "the program does not end");
    final String said = Files.readString(output.toPath());
    assertEquals(exitCode, process.exitValue(), said);
    return said;
  }

  private static String agentPath(final Path directory) {
    return "-agentpath:" + directory.resolve("libpulse_java.so");
  }

  private static Path nativeDir() {
    return Path.of(System.getProperty("native.dir")).toAbsolutePath();
  }

  // With and without a dictionary, for which RocksDB 11.8 starts no threads. The program has the first CPU, the agent the
  // next.
  @Test
  void Compression_OfATable_IsOnTheAgentsCpus() throws Exception {
    assumeTrue(Runtime.getRuntime().availableProcessors() > 1, "there is one CPU");
    for (final String dictionary : List.of("0", "4096")) {
      final Path database = dir.resolve("dictionary-" + dictionary);
      final String said = run(null, 0, List.of("taskset", "-c", "0"), List.of(),
          List.of(CompressionProgram.class.getName(), database.toString(), "pulse://?agent_cpus=1&compression=agent",
              dictionary));
      final Matcher micros = Pattern.compile("on the agent: ([0-9]+)").matcher(said);
      assertTrue(micros.find(), said);
      final boolean onHost = RocksDB.rocksdbVersion().getMajor() >= 11 && !dictionary.equals("0");
      assertEquals(onHost, Long.parseLong(micros.group(1)) == 0, said);
      assertEquals(onHost, said.contains("samples a dictionary"), said);
    }
  }

  @Test
  void JvmAgent_PlainProgram_IsOnPulse() throws Exception {
    final String said = runJava("pulse://", 0, agentPath(nativeDir()));
    assertTrue(said.contains("all there"), said);
    assertTrue(said.contains("thread pulse-agent"), said);
    final String without = runJava(null, 0);
    assertTrue(without.contains("all there") && !without.contains("pulse-agent"), without);
  }

  @Test
  void JvmAgent_OptionThatNeedsPlacing_IsSaidToHaveNoEffect() throws Exception {
    final String said = runJava("pulse://?placement=whole", 0, agentPath(nativeDir()));
    assertTrue(said.contains("all there") && said.contains("have no effect"), said);
    assertTrue(!runJava("pulse://", 0, agentPath(nativeDir())).contains("have no effect"));
  }

  @Test
  void JvmAgent_SecondLibraryOfRocksJava_EndsTheProgram() throws Exception {
    final String said = runJava("pulse://", 1, "-Dplain.twice=true", agentPath(nativeDir()));
    assertTrue(said.contains("all there") && said.contains("2 times, from several class loaders"), said);
    assertTrue(!said.contains("opened twice"), said);
  }

  @Test
  void JvmAgent_WrongUri_OpenFails() throws Exception {
    final String said = runJava("pulse://?placment=split", 1, agentPath(nativeDir()));
    assertTrue(said.contains("placment") && !said.contains("all there"), said);
  }

  @Test
  void JvmAgent_NoPluginForThisVersion_SaysWhichThereAre() throws Exception {
    final Path other = Files.createDirectory(dir.resolve("native"));
    Files.copy(nativeDir().resolve("libpulse_java.so"), other.resolve("libpulse_java.so"));
    Files.createFile(other.resolve("libpulse_rocksdb_java-6.0-old.so"));
    final String said = runJava("pulse://", 1, agentPath(other));
    assertTrue(said.contains("6.0-old") && said.contains("no plug-in for RocksDB"), said);
    assertTrue(!said.contains("all there"), said);
  }

  // "8.10-old", as a plug-in's name has it; `other`: of the other std::string.
  private static String plugin(final boolean other) {
    final RocksDB.Version version = RocksDB.rocksdbVersion();
    final boolean old = version.getMajor() < 11;
    return version.getMajor() + "." + version.getMinor() + "-" + (old != other ? "old" : "cxx11");
  }

  // What libpulse_java.so finds beside it: a plug-in of that name, which is the right one but for its name.
  private Path directoryWith(final String name) throws Exception {
    final Path other = Files.createDirectory(dir.resolve("native-" + name));
    Files.copy(nativeDir().resolve("libpulse_java.so"), other.resolve("libpulse_java.so"));
    Files.copy(nativeDir().resolve("libpulse_rocksdb_java-" + plugin(false) + ".so"),
        other.resolve("libpulse_rocksdb_java-" + name + ".so"));
    return other;
  }

  // Names and sizes of a database's files.
  private static List<String> filesOf(final Path database) throws Exception {
    try (Stream<Path> files = Files.list(database)) {
      return files.map(file -> file.getFileName() + " " + file.toFile().length()).sorted().collect(Collectors.toList());
    }
  }

  @Test
  void Open_PluginOfAnotherVersionOrString_IsRefusedAndTheStateIntact() throws Exception {
    final Path database = dir.resolve("db");
    try (Options options = new Options().setCreateIfMissing(true);
        RocksDB db = RocksDB.open(options, database.toString())) {
      write(db, 0, 10);
    }
    final List<String> before = filesOf(database);
    final List<String> program = List.of(PulseProgram.class.getName(), database.toString(), "pulse://");
    for (final String name : List.of("6.0-old", plugin(true))) {
      final String said = run(null, 1, List.of("-Dpulsedb.library.path=" + directoryWith(name)), program);
      assertTrue(said.contains("refused: ") && said.contains("no plug-in for RocksDB " + plugin(false)), said);
      assertTrue(said.contains("kind of std::string") && said.contains("there are " + name), said);
      assertEquals(before, filesOf(database));
    }
    // The same files under the right name are taken.
    assertTrue(run(null, 0, List.of("-Dpulsedb.library.path=" + directoryWith(plugin(false))), program)
        .contains("all there"));
  }

  @Test
  void JvmAgent_PluginOfTheOtherString_EndsTheProgram() throws Exception {
    final String said = runJava("pulse://", 1, agentPath(directoryWith(plugin(true))));
    assertTrue(said.contains("no plug-in for RocksDB " + plugin(false)), said);
    assertTrue(said.contains("there are " + plugin(true)), said);
    assertTrue(!said.contains("all there"), said);
    assertTrue(!Files.exists(dir.resolve("plain").resolve("CURRENT")), "a database was created all the same");
  }
}
