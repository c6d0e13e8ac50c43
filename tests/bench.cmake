# SPDX-License-Identifier: MIT
# The bench's own programs; `./dev bench` builds them.
if(TALLYBOX_TESTS)
  find_library(MATH m REQUIRED)
  function(bench_program name)
    add_executable(bench_${name} EXCLUDE_FROM_ALL bench/${name}.c bench/bench.c ${ARGN})
    target_link_libraries(bench_${name} PRIVATE tallybox_flags schema_core dep::rdkafka dep::mysql ${MATH})
    add_dependencies(bench bench_${name})
  endfunction()

  add_custom_target(bench DEPENDS tallybox)
  bench_program(ceiling_apply bench/bench_db.c)
  bench_program(ceiling_commit bench/bench_db.c)
  bench_program(ceiling_produce)
  bench_program(ceiling_retry bench/bench_db.c)
  bench_program(latency bench/bench_db.c)
  bench_program(versions)
  bench_program(votes_produce)
  bench_program(writers bench/bench_db.c)

  # The role alone; its handler is the program's own.
  add_executable(bench_retry_noop EXCLUDE_FROM_ALL bench/retry_noop.c)
  target_link_libraries(bench_retry_noop PRIVATE tallybox_flags common schema outbox retry)
  add_dependencies(bench bench_retry_noop)
endif()
