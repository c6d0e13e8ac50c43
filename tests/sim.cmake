# SPDX-License-Identifier: MIT
# The simulation: its models and engines as a library, the driver, and a test of the instrument.
# Fibers and the thread sanitizer do not know each other.
if(TALLYBOX_TESTS AND NOT TALLYBOX_SANITIZE MATCHES "thread")
  add_library(
    sim STATIC
    sim/broker.c
    sim/chaos.c
    sim/consume.c
    sim/db.c
    sim/group.c
    sim/housekeep_store.c
    sim/housekeeps.c
    sim/leases.c
    sim/months.c
    sim/promises.c
    sim/relay.c
    sim/replays.c
    sim/replica.c
    sim/retries.c
    sim/retry_lane.c
    sim/roles.c
    sim/rollup_store.c
    sim/rollups.c
    sim/run.c
    sim/sched.c
    sim/sink.c
    sim/story.c
    sim/tables.c
    sim/task_operator.c
    sim/task_promises.c
    sim/task_store.c
    sim/task_submit.c
    sim/task_work.c
    sim/tasks.c
    sim/votes.c
    sim/world.c
    sim/writers.c)
  target_link_libraries(sim PRIVATE tallybox_flags PUBLIC retry_core outbox_core consumer_core producer_core)

  add_executable(tallybox-sim sim/main.c)
  target_link_libraries(tallybox-sim PRIVATE tallybox_flags sim)
  set_target_properties(tallybox-sim PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

  tallybox_test(test_sim flow sim/test_sim.c LINKS sim)
endif()
