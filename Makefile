# The front doors. `make run` and `make test` need nothing but Debian and the right to install.
JOBS ?= 2
FUZZ_SECONDS ?= 20
# Whole builds are what these doors are for; UNITY=OFF suits work on single files better.
UNITY ?= ON
PULSE := build/release/bin/pulse
# ThreadSanitizer needs the address layout that randomisation sometimes spoils.
NO_RANDOM := $(shell setarch -R true 2>/dev/null && echo setarch -R)
ASAN_ENV := ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
TSAN_ENV := TSAN_OPTIONS=suppressions=$(CURDIR)/scripts/tsan.supp:second_deadlock_stack=1

# Exhaustive models and simulations of one thread are slow under sanitizers, and nothing for them to look at;
# the code of RealManifestTest and of the dry run is under others, too.
NO_MODELS := GTEST_FILTER=-RingModelTest.Every*:ResponseModelTest.Few*:All/RealManifestTest.*:ConvertTest.DryRun*:BarrierModel.*:ProgressModelTest.Every*:ProgressModelTest.Few*:EngineModel.EveryExecution*

# What PULSE_TEST_LONG=1 makes longer; CONTRIBUTING.md says how.
LONG_TESTS := ^(powercut_test|convert_cut_test|fault_test.*|store_test.*|preload_.*|agent_lifecycle|bench_cli|options_test.*|lsm_test.*|graph_runs_test|graph_salvage_test|cypher_shortcuts_test)$$

# One thread at work: AddressSanitizer looks at these, ThreadSanitizer has nothing to see in them. What the
# store's threads do together is in StoreThreadsTest, StoreModelTest.LongLives and the files' tests.
ONE_THREAD := UdpBatchTest.*:UdpCodecTest.*:CorruptionTest.*:KillTest.*:*PartitionModelTest.*:PartitionTest.*:*EvictionTest.*:BatchTest.*:CheckTest.Repair_AnyDamage*:SegmentMapTest.*:StoreModelTest.EveryCut*:StoreScaleTest.*:OutQueueTest.*:Parser.*:Temporal.*:MergeRuns.*:RunDamage.*:Run.Random*:StoreModel.Fault*:StoreModel.LogCut*:Wal.*:LoadCsv.MoreRelationships*:LoadCsv.TypeThatShowsLate*:SpillQueries.Order*:SpillQueries.Distinct*:SpillQueries.Group*:SpillQueries.Faults*:SpillQueries.Rows*:SpillQueries.List*:SpillQueries.LargeRows*
# Programs of one thread, or whose queries have the threads of cypher_parallel_test.
NO_THREADS := ^(cypher_test|cypher_shortcuts_test|cypher_features|graph_model_test)$$
# PART=1: asan and tsan build and run the tests of graph, kv and redis; PART=2: all others. About as much each.
PART ?=
PART_1 := src/services/graph src/services/kv src/services/redis tests/cypher tests/linear
PART_2 = $(filter-out $(PART_1) src/services tests/fuzz,$(patsubst %/CMakeLists.txt,%,$(wildcard src/*/CMakeLists.txt \
  src/services/*/CMakeLists.txt tests/*/CMakeLists.txt apps/nbd/CMakeLists.txt examples/CMakeLists.txt \
  bench/rivals/CMakeLists.txt)))
PART_1_TESTS := ^(graph|cypher|kv|redis|server|checker)_
part_targets = $(if $(PART),--target $(addsuffix /all,$(PART_$(PART))))
part_tests = $(if $(filter 1,$(PART)),-R '$(PART_1_TESTS)') -E '$(if $(filter 2,$(PART)),$(PART_1_TESTS),$(or $(1),^$$))'
# Configurations in which the same threads meet in the same way as in others.
SAME_THREADS := *EveryConfigTest.*/one_stream:*EveryConfigTest.*/odd_queue:*EveryConfigTest.*/no_fetch:*EveryConfigTest.*/strict:*EveryConfigTest.*/small_threshold:*FetchTest.*/odd_chunks:*FetchTest.*/four_chunks:*FetchTest.*/buffered:NamesTest.*:*EveryCodec.EveryLevel*:*EveryCodec.AnyDamagedByte*:*EveryCodec.Truncated*:IndexTest.Passes_OfEveryLibrary*:IndexTest.Index_Forged*:IndexTest.Index_WithAnyByte*:ForgedIndexTest.*:Decompress.Foreign*:Decompress.Limit*

.DEFAULT_GOAL := help
.PHONY: help setup run test test-long build asan tsan fuzz integration format check-format check-tidy check-in-tree \
  check-compat check-newest bench-tiny browser-test client-tests java java-tests stream-tests differential python python-test clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## install what is missing (Debian, apt)
	@scripts/setup-debian.sh

run: build ## set up, build, show stock RocksDB against PulseDB on this disk (ARGS='--dir DIR')
	$(PULSE) bench demo $(ARGS)

test: build ## set up, build, run all tests
	ctest --preset release

test-long: build ## the tests that `make test` takes a sample of, in full, with a seed of their own
	env PULSE_TEST_LONG=1 ctest --preset release -R '$(LONG_TESTS)'

build: setup ## build the release preset into build/release
	@$(call configure,release)
	@cmake --build --preset release -j $(JOBS)

integration: build ## only the tests that run RocksDB's own programs on the plug-in
	ctest --preset release -L integration

asan: setup ## unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(call configure,asan)
	@cmake --build --preset asan -j $(JOBS) $(part_targets)
	$(ASAN_ENV) $(NO_MODELS) ctest --preset asan $(call part_tests)

tsan: setup ## unit tests under ThreadSanitizer
	@$(call configure,tsan)
	@cmake --build --preset tsan -j $(JOBS) $(part_targets)
	$(TSAN_ENV) $(NO_MODELS):$(ONE_THREAD):$(SAME_THREADS):FilesCut.* $(NO_RANDOM) \
	  ctest --preset tsan $(call part_tests,$(NO_THREADS))

fuzz: ## libFuzzer targets, FUZZ_SECONDS (20) each
	@scripts/fuzz.sh $(FUZZ_SECONDS)

format: ## format every C++ file
	@scripts/check-format.sh --fix

check-format: ## check the formatting of every C++ file
	@scripts/check-format.sh

check-tidy: ## clang-tidy on what the last commits changed; scripts/check-tidy.sh --all takes all
	@scripts/check-tidy.sh

check-in-tree: ## compile the plug-in inside the newest RocksDB, as its Release build does
	@scripts/check-in-tree.sh

check-compat: build ## a plug-in and an agent of this tree with those of the commit before, or of REVISION=
	@scripts/check-compat.sh $(REVISION)

check-newest: build ## db_bench and db_stress of the newest RocksDB on pulse:// (installs a JDK, Maven and cargo)
	@scripts/setup-debian.sh --java
	@scripts/check-newest.sh

bench-tiny: build ## every benchmark in its tiny size
	@scripts/bench-tiny.sh build/release

browser-test: build ## open the report of `pulse bench paper` and the page of graphs in a browser (installs chromium)
	@scripts/setup-debian.sh --browser
	ctest --preset release -L browser

client-tests: build ## client libraries' own tests against `pulse serve` and `pulse kv` (installs and downloads them)
	@scripts/redis-py-tests.sh serve $(PULSE)
	@scripts/redis-py-tests.sh kv $(PULSE)
	@scripts/kv-clients.sh $(PULSE)

java: ## the Java package for stock RocksJava: build/java/pulsedb-rocksdb.jar (installs a JDK and Maven)
	@scripts/setup-debian.sh --java
	@java/build.sh

java-tests: build ## the Java package's tests, and RocksJava's own with and without PulseDB
	@scripts/setup-debian.sh --java
	@java/tests.sh

stream-tests: build ## Kafka Streams and Flink with their state on PulseDB (downloads them)
	@scripts/setup-debian.sh --java
	@java/streams/tests.sh

differential: build ## random commands to `pulse kv`, `pulse serve` and Debian's redis-server, replies compared
	tests/clients/redis_differential.py $(PULSE) --server kv
	tests/clients/redis_differential.py $(PULSE) --server serve
	tests/clients/redis_scenarios.py $(PULSE) --server kv
	tests/clients/redis_scenarios.py $(PULSE) --server agent
	tests/clients/redis_scenarios.py $(PULSE) --server serve

python: setup ## the wheel of the Python package, into build/python/dist (tools come from PyPI)
	@$(call configure,release)
	@JOBS=$(JOBS) scripts/python.sh build/release

python-test: setup ## the same, and its tests
	@$(call configure,release)
	@JOBS=$(JOBS) scripts/python.sh build/release --test

clean: ## remove the build directories
	rm -rf build/release build/asan build/tsan build/fuzz build/python

# Configures a preset unless that has succeeded before; afterwards ninja does it when needed.
configure = test -f build/$(1)/build.ninja || cmake --preset $(1) -DPULSE_UNITY=$(UNITY)
