# SPDX-License-Identifier: MIT
"""The arithmetic of tests/cluster/pauses.py."""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "cluster"), str(HERE.parent / "e2e")]
import pauses  # noqa: E402


def progress(*seen):
    """seen: (now, offset, owner) of partition 0."""
    made = pauses.Progress()
    for now, offset, owner in seen:
        made.add(now, [(0, offset, owner, 1)])
    return made


class Pauses(unittest.TestCase):
    """Steps that are made up."""

    any_database = True

    def test_the_longest_time_between_two_steps_counts(self):
        made = progress((1.0, 5, "a"), (1.1, 6, "a"), (1.9, 7, "a"), (2.0, 8, "a"))
        self.assertEqual(made.pauses(1.0, 2.0), [pauses.Pause(0, 1.9 - 1.1, False)])

    def test_an_offset_that_stays_is_no_step(self):
        made = progress((1.0, 5, "a"), (1.5, 5, "a"), (2.0, 6, "a"))
        self.assertEqual(made.pauses(0.5, 2.5), [pauses.Pause(0, 1.0, False)])

    def test_a_pause_that_outlasts_the_time_counts_whole(self):
        made = progress((1.0, 5, "a"), (5.0, 6, "b"))
        self.assertEqual(made.pauses(2.0, 3.0), [pauses.Pause(0, 4.0, True)])

    def test_steps_before_and_after_do_not_count(self):
        made = progress((1.0, 4, "a"), (9.0, 5, "a"), (9.5, 6, "a"), (10.0, 7, "a"), (30.0, 8, "b"))
        self.assertEqual(made.pauses(9.4, 9.9), [pauses.Pause(0, 0.5, False)])

    def test_a_partition_without_steps_is_left_out(self):
        self.assertEqual(progress((1.0, 5, "a")).pauses(2.0, 3.0), [])

    def test_kept_and_moved_are_told_apart(self):
        self.assertEqual(pauses.text_of([pauses.Pause(0, 0.1, False), pauses.Pause(1, 1.5, True),
                                         pauses.Pause(2, 0.2, False)]),
                         "2 kept 200 ms, 1 moved 1500 ms")
        self.assertEqual(pauses.text_of([]), "0 kept, 0 moved")


if __name__ == "__main__":
    unittest.main()
