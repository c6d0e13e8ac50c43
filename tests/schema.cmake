# SPDX-License-Identifier: MIT
tallybox_test(test_vote_event unit unit/test_vote_event.c LINKS schema_core)
