# SPDX-License-Identifier: MIT
"""What the watch says of moves and memory, and when the writers of tasks pause."""

import pathlib
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import watch  # noqa: E402
import writers  # noqa: E402

LANE = ("lane", "outbox")
PART = ("partition", "votes", 3)


class Limit(unittest.TestCase):
    """Writers pause from 2,000 tasks on until 200 are left."""

    any_database = True

    def test_writers_pause_until_the_queue_is_short_again(self):
        limit = writers.QueueLimit()
        lengths = [(1999, False), (2000, True), (1999, True), (201, True), (200, False),
                   (1999, False), (5000, True), (6000, True), (0, False)]
        for tasks, paused in lengths:
            limit.update(tasks)
            self.assertEqual(limit.paused, paused, tasks)
        self.assertEqual(limit.pauses, 2)


class Moves(unittest.TestCase):
    """A killed owner's things, by hand."""

    any_database = True

    def setUp(self):
        self.watch = watch.Watch(None)
        self.watch.note({LANE: "host-11-aa", PART: "host-22-bb"}, time.monotonic())

    def test_a_lane_has_moved_when_somebody_else_owns_it(self):
        self.watch.killed("relay-1", 11)
        now = time.monotonic()
        self.watch.note({LANE: "host-11-aa", PART: "host-22-bb"}, now + 1)
        self.watch.note({LANE: "", PART: "host-22-bb"}, now + 2)
        self.assertEqual(self.watch.moves["lane"], [])
        self.watch.note({LANE: "host-33-cc", PART: "host-22-bb"}, now + 3)
        move, = self.watch.moves["lane"]
        self.assertAlmostEqual(move.seconds, 3, delta=1)
        self.assertFalse(move.quiet)
        self.assertEqual(self.watch.moves["partition"], [])
        self.assertRegex(self.watch.text()[0], "lanes: in quiet 0; under other faults 1, max 3")

    def test_what_others_hold_is_not_waited_for(self):
        self.watch.killed("relay-2", 1)
        self.watch.killed("consume-1", 11)
        self.watch.note({LANE: "host-33-cc"}, time.monotonic())
        self.assertEqual(self.watch.moves, {"lane": [], "partition": []})

    def test_moves_in_quiet_are_told_apart(self):
        self.watch.killed("consume-1", 22)
        self.watch.begin_quiet()
        self.watch.note({LANE: "host-11-aa", PART: "host-33-cc"}, time.monotonic())
        self.assertEqual(self.watch.moves["partition"], [])
        self.assertEqual((self.watch.owns(11), self.watch.owns(33), self.watch.owns(1)), (1, 1, 0))
        self.watch.killed("consume-2", 33)
        self.assertFalse(self.watch.moved())
        self.watch.note({PART: "host-44-dd"}, time.monotonic())
        self.assertTrue(self.watch.moved())
        self.assertTrue(self.watch.moves["partition"][0].quiet)


class Lives(unittest.TestCase):
    """Memory of the longest life of each sort."""

    any_database = True

    def test_growth_of_the_longest_life_is_shown(self):
        memory = watch.Memory()
        memory.lives["relay-1", 7] = [(n, 10 + n) for n in range(100)]
        memory.lives["relay-2", 8] = [(n, 500) for n in range(50)]
        memory.peaks.update({"relay-1": 120, "relay-2": 501})
        line, = memory.text()
        self.assertEqual(line, "memory of relay: peak 501.0 MiB; longest life 99 s, the median of "
                         "each fifth: 19.5 39.5 59.5 79.5 99.5")

    def violations_of(self, *fifths):
        """A life of 100 s at these MiB."""
        memory = watch.Memory()
        memory.lives["relay-1", 7] = [(n, fifths[n // 20]) for n in range(100)]
        return memory.violations()

    def test_growth_from_the_second_fifth_to_the_last_is_a_violation(self):
        violation, = self.violations_of(10, 20, 30, 40, 50)
        self.assertIn("memory of relay grew from 20.0 MiB", violation)
        self.assertEqual(len(self.violations_of(100, 100, 110, 120, 130)), 1)

    def test_a_start_a_peak_and_a_little_growth_are_none(self):
        self.assertEqual(self.violations_of(10, 50, 50, 50, 51), [])
        self.assertEqual(self.violations_of(20, 20, 90, 20, 20), [])
        self.assertEqual(self.violations_of(100, 100, 110, 115, 120), [])

    def test_a_life_that_is_short_tells_nothing(self):
        memory = watch.Memory()
        memory.lives["relay-1", 7] = [(n, 10 * n) for n in range(watch.GROWTH_SAMPLES_MIN - 1)]
        self.assertEqual(memory.violations(), [])


if __name__ == "__main__":
    unittest.main()
