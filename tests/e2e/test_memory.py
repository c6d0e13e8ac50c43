# SPDX-License-Identifier: MIT
"""Memory is bounded by settings, not by what comes in: a large file, a long backlog, large rows.
Peaks are what the kernel counted (VmHWM)."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import wire  # noqa: E402

# consumer.memory_max, and a record of 1 MiB packed and unpacked, which librdkafka holds whole.
LIMIT_MIB = 64 + 2
PARTITIONS = 12
PACKED = 400


def peak_mib(pid):
    """The highest resident size so far; None when the process is gone."""
    try:
        return suite.peak_rss_mib(pid)
    except (OSError, AttributeError):
        return None


def show(what, mib):
    """Prints the measured peak, from which the limit is chosen."""
    print(f"{what}: peak {mib:.0f} MiB of {LIMIT_MIB}", file=sys.stderr)


class Memory(suite.Case):
    """Each input is far larger than the limit."""

    seconds = 100

    def check(self, what, mib):
        show(what, mib)
        self.assertLess(mib, LIMIT_MIB)

    def test_a_file_of_200_mb_is_voted_in_bounded_memory(self):
        """Repeats change nothing, so the database has little to do."""
        piece = b"".join(b"%019d,%019d\r\n" % (1 + n % 4, 2) for n in range(25000))
        words = [suite.BINARY, "vote", "--config", str(self.stack.ini), "--csv", "-"]
        peak = 0
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=suite.clean_environment()) as voting:
            voting.stdin.write(b"voter_id,content_id\n")
            for _ in range(200):
                voting.stdin.write(piece)
                peak = max(peak, peak_mib(voting.pid) or 0)
            voting.stdin.close()
            self.assertEqual(voting.wait(120), 0)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 4)
        self.check("vote --csv", peak)

    def numbers(self, count):
        """A table n of 1..count."""
        self.stack.sql("DROP TABLE IF EXISTS n")
        self.stack.sql("CREATE TABLE n (n BIGINT PRIMARY KEY)")
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        parts = [f"({digits}) AS d{place}" for place in range(6)]
        value = " + ".join(f"d{place}.d * {10 ** place}" for place in range(6))
        self.stack.sql(f"INSERT INTO n SELECT v FROM (SELECT 1 + {value} AS v FROM "
                       f"{', '.join(parts)}) AS all_of_them WHERE v <= {count}")

    def event_id(self):
        return "CONCAT('00000000-0000-7000-8000-', LPAD(HEX(n), 12, '0'))"

    def test_a_backlog_of_200000_votes_in_bounded_memory(self):
        count = 200000
        self.stack.sql("DELETE FROM outbox")
        self.numbers(count)
        self.stack.sql(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
            f"SELECT LOWER({self.event_id()}), 'vote', 1 + n % 1000, 'VoteChanged', "
            f"CONCAT('{{\"eventId\":\"', LOWER({self.event_id()}), '\",\"voterId\":', n, "
            "',\"contentId\":', 1 + n % 1000, ',\"voting\":1,\"votes\":1,\"occurredAt\":"
            "1790000000000}') FROM n")
        relay = self.start("relay")
        self.stack.wait_drained(120)
        self.check("relay, backlog", relay.peak_rss_mib())
        consume = self.start("consume")
        self.stack.wait_rows("vote_document", count, 120)
        self.check("consume, backlog", consume.peak_rss_mib())
        self.assertEqual(self.stack.number("SELECT SUM(votes) FROM vote_tally"), count)
        relay.end()
        consume.end()

    def wait_dead(self, count):
        """By key: after trouble the topic may hold a record twice."""
        suite.wait_for(f"{count} dead records", lambda: self.stack.number(
            "SELECT COUNT(DISTINCT record_key) FROM dead_record") == count, 120)

    def test_large_rows_in_bounded_memory(self):
        """They are no votes: the consumer keeps each as a dead record. They are random bytes,
        because the size of a fetch is bounded before it is decompressed."""
        self.stack.sql("DELETE FROM outbox")
        self.numbers(200)
        self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                       "SELECT UUID(), 'vote', n, 'Large', CONCAT(n, %s) FROM n",
                       [os.urandom(900000)])
        relay = self.start("relay")
        self.stack.wait_drained(120)
        self.check("relay, large rows", relay.peak_rss_mib())
        consume = self.start("consume")
        self.wait_dead(200)
        self.check("consume, large rows", consume.peak_rss_mib())
        relay.end()
        consume.end()

    def test_records_that_compress_100_to_1_in_bounded_memory(self):
        """What a fetch brings is bounded before it is unpacked."""
        topic = f"{self.stack.topic}-packed"
        wire.create_topic(suite.kafka().bootstrap, topic, PARTITIONS)
        self.stack.sql("DELETE FROM outbox")
        self.numbers(PACKED)
        self.stack.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
                       "SELECT UUID(), 'vote', n, 'Packed', "
                       "CONCAT(n, SUBSTRING(%s, 1 + n * 17, 9000), %s) FROM n",
                       [os.urandom(9000 + 17 * (PACKED + 1)), bytes(891000)])
        relay = self.start("relay", sets={"kafka.producer.compression.codec": "zstd",
                                          "relay.topics": f"vote={topic}"})
        self.stack.wait_drained(120)
        relay.end()
        self.stack.sql("DELETE FROM dead_record")
        consume = self.start("consume", sets={"consumer.topics": topic})
        self.wait_dead(PACKED)
        self.check("consume, packed records", consume.peak_rss_mib())
        consume.end()


if __name__ == "__main__":
    unittest.main()
