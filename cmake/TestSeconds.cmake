# Name and seconds of the tests that take longest, five at a time on two CPUs; in a sanitizer's build
# those of ThreadSanitizer, four at a time. Only their order matters: a new build has no times of its own.
if(PULSE_SANITIZE)
  set(PULSE_TEST_SECONDS
    cypher_parallel_test 280 kv_test 270 lsm_test_1_of_2 250 lsm_test_2_of_2 250 lsm_pool_test 200
    graph_core_test 230
    graph_load_test 200 ops_test 200 whole_test_1_of_2 200 whole_test_2_of_2 170 graph_exchange_test 160
    ops_remote_test 160 ops_ahead_test 150 redis_test 145 graph_engines_test 135 graph_salvage_test 100
    net_test 100 redis_offload_test 95 ops_library_test 85 cypher_spill_test 80 placement_test 70
    ops_queue_test 65 convert_test 55 graph_session_test 50 ops_filter_test 50 kv_agent_test 45
    graph_bolt_test 45 graph_algorithms_test 45 message_ring_test 40 files_test 35 nbd_export_test 35
    kv_shm_test 30 kv_memcached_test 30 graph_library_test 30 kv_embedded_test 25 examples_test 25)
else()
  set(PULSE_TEST_SECONDS
    lsm_pool_test 95 lsm_test_1_of_2 80 lsm_test_2_of_2 75 bench_cli 70 bench_kv_designs 60 bad_input 50
    whole_test_1_of_2 50 whole_test_2_of_2 50 ops_ahead_test 45 ops_test 45 compress 40 net_test 40
    graph_page 40 agent_lifecycle 35 bench_all 35 fault_test_1_of_2 35 kv_udp 35 python_package 35
    filter 30 kv_test 30 nbd_export_test 30 ops_remote_test 30 pool_convert 30 virtual_dpu 30
    cypher_shortcuts_test 25 environment 25 graph_core_test 25 metrics 25 examples 20 fault_test_2_of_2 20
    files_test 20 graph_agent 20 kv_core_test 20 kv_history_test 20 message_ring_test 20 powercut_test 20
    report 20 serve 20 cypher_spill_test 18 cypher_test 18 examples_test 18 graph_engines_test 18
    kv_memory 18 kv_processes 18 preload_pool 18 redis_test 18 bench_kv_model 15 check_public_headers 15
    convert_cut_test 15 graph_command 15 ops_agent 15 preload_embedded 15 preload_external 15
    server_history_test 15 command_line 14 convert_test 12 cypher_parallel_test 12 kv 12 nbd_lost_agent 12
    uring_test 12)
endif()

# pulse_test_cost(NAME...): what takes longest begins first, so that no core idles at the end.
function(pulse_test_cost)
  foreach(name ${ARGN})
    list(FIND PULSE_TEST_SECONDS ${name} at)
    if(at GREATER -1)
      math(EXPR at "${at} + 1")
      list(GET PULSE_TEST_SECONDS ${at} seconds)
      set_tests_properties(${name} PROPERTIES COST ${seconds})
    endif()
  endforeach()
endfunction()
