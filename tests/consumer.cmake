# SPDX-License-Identifier: MIT
tallybox_test(test_rollup unit unit/test_rollup.c unit/rollup_sink.c LINKS consumer_core)
tallybox_test(test_rollup_lease unit unit/test_rollup_lease.c unit/rollup_sink.c LINKS consumer_core)
tallybox_test(test_status unit unit/test_status.c LINKS consumer_core dep::jansson)
tallybox_test(test_dead_text unit unit/test_dead_text.c LINKS consumer_core dep::jansson)
foreach(name IN ITEMS keys request)
  tallybox_test(test_dead_${name} unit unit/test_dead_${name}.c LINKS consumer_core)
endforeach()
tallybox_test(test_verify unit unit/test_verify.c LINKS consumer_core)
foreach(name IN ITEMS batch date headers housekeep_plan restart tally)
  tallybox_test(test_${name} unit unit/test_${name}.c LINKS consumer_core)
endforeach()
tallybox_test(test_housekeep flow flow/test_housekeep.c flow/housekeep_model.c LINKS consumer_core)
tallybox_test(test_apply flow flow/test_apply.c flow/consume_sink.c LINKS consumer_core)
tallybox_test(test_applier flow flow/test_applier.c flow/consume_sink.c LINKS consumer_core)
tallybox_test(test_vote_task flow flow/test_vote_task.c flow/consume_sink.c
              flow/dead_model.c LINKS consumer_core)
tallybox_test(test_submitter flow flow/test_submitter.c LINKS consumer_core)
tallybox_test(test_held flow flow/test_held.c flow/consume_rig.c flow/consume_sink.c
              flow/consume_stream.c LINKS consumer_core)
tallybox_test(test_dead flow flow/test_dead.c flow/dead_model.c flow/consume_sink.c
              LINKS consumer_core)
tallybox_test(test_consume flow flow/test_consume.c flow/consume_rig.c flow/consume_sink.c
              flow/consume_stream.c LINKS consumer_core)
tallybox_test(test_consume_world flow flow/test_consume_world.c flow/consume_rig.c
              flow/consume_sink.c flow/consume_stream.c flow/dead_model.c LINKS consumer_core)
tallybox_test(test_consume_kafka flow flow/test_consume_kafka.c LINKS consumer mock_sockets
              dep::rdkafka)
