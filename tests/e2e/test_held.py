# SPDX-License-Identifier: MIT
"""Votes that the database refuses for a cause that passes: their contents wait in order, everything
else goes on, and once the cause is gone nothing is lost, doubled or out of order."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402
import test_housekeep  # noqa: E402


class Held(test_housekeep.HousekeepCase):
    """A log without a partition for the months to come."""

    def setUp(self):
        super().setUp()
        self.recut(-6, 0, after=False)

    def held(self):
        return self.stack.sql("SELECT reason_class, record_key FROM dead_record ORDER BY "
                              "partition_id, record_offset")

    def log_of(self, content):
        return [row[0] for row in self.stack.sql(
            "SELECT voter_id FROM vote_document WHERE content_id = %s ORDER BY content_seq",
            [content])]

    def test_a_vote_without_a_partition_waits_with_its_content_alone(self):
        today, later = self.months.first(0), self.months.first(2)
        self.way()
        self.vote_on(today, (1, 7, 1), (1, 8, 1))
        self.vote_on(later, (2, 7, 1))
        self.vote_on(today, (3, 7, 1), (2, 8, 1), (4, 7, 1))
        self.wait_logged()
        self.assertEqual(self.log_of(7), [1])
        self.assertEqual(self.log_of(8), [1, 2])
        self.assertEqual(sorted(self.held()),
                         [("behind", b"7"), ("behind", b"7"), ("refused", b"7")])
        self.assertIn("partition", self.stack.sql(
            "SELECT reason FROM dead_record WHERE reason_class = 'refused'")[0][0])

        # While the cause is there a replay changes nothing; then it goes in order.
        self.stack.tallybox("dead", "replay", "--all", "--yes", expect=house.FAILED)
        self.assertEqual(len(self.held()), 3)
        self.once(months_ahead=3)
        self.vote_on(later, (5, 8, 1))
        self.vote_on(today, (5, 7, 1))
        self.wait_logged()
        self.assertEqual(len(self.held()), 4)
        self.stack.tallybox("dead", "replay", "--all", "--yes")
        self.assertEqual(self.log_of(7), [1, 2, 3, 4, 5])

        # And back to the fast way.
        self.vote_on(later, (6, 7, 1), (6, 8, 1))
        self.wait_logged()
        self.assertEqual(len(self.held()), 0)
        self.assertEqual(self.log_of(7), [1, 2, 3, 4, 5, 6])
        self.stack.verify()
