#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants each fault that tests/lint/floors looks for, and sees that it is found, and no other."""
import os
import subprocess
import sys
import tempfile
import unittest

FLOORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floors")

SOUND = {
    "main.c": '#include "outbox/relay_command.h"\n#include "producer/vote_command.h"\n',
    "common/db.h": "",
    "common/db.c": '#include "common/db.h"\n#include <mysql.h>\n',
    "common/db_handle.h": "#include <mysql.h>\n",
    "common/db_error.c": '#include "common/db_handle.h"\n',
    "common/err.h": "",
    "common/kafka.c": "#include <librdkafka/rdkafka.h>\n",
    "outbox/outbox.h": '#include "common/err.h"\n',
    "outbox/outbox_mysql.c": '#include "outbox/outbox.h"\n#include "common/db.h"\n',
    "outbox/relay.h": '#include "outbox/relay_seam.h"\n',
    "outbox/relay.c": '#include "outbox/relay.h"\n#include "common/err.h"\n',
    "outbox/relay_seam.h": '#include "common/err.h"\n',
    "outbox/relay_mysql.h": '#include "outbox/relay_seam.h"\n#include "common/db.h"\n',
    "outbox/relay_kafka.c": "#include <librdkafka/rdkafka.h>\n",
    "outbox/relay_command.h": '#include "outbox/relay.h"\n#include "outbox/relay_mysql.h"\n',
    "outbox/retry_handler.h": "",
    "outbox/call_http.c": "#include <curl/curl.h>\n",
    "outbox/call_handler.c": '#include "outbox/relay.h"\n#include "outbox/relay_mysql.h"\n'
                             '#include "outbox/retry_handler.h"\n',
    "producer/vote.h": "",
    "producer/vote_command.h": '#include "producer/vote.h"\n#include "outbox/outbox.h"\n',
    "schema/vote_event.h": "",
    "consumer/apply.c": '#include "schema/vote_event.h"\n',
    "tests/unit/test_relay.c": '#include "outbox/relay.h"\n#include "consumer/apply.c"\n',
}

# What is planted: file, its content, and what must be said about it.
PLANTED = (
    ("outbox/relay.c", '#include "outbox/relay_mysql.h"\n', "outbox/relay.c:1: an engine sees"),
    ("outbox/relay.c", '#include "outbox/relay_command.h"\n', "relay.c:1: includes go down only"),
    ("outbox/relay.c", '\n#include "common/db.h"\n', "relay.c:2: an engine decides without"),
    ("outbox/relay_seam.h", '#include "outbox/relay.h"\n', "includes go down only"),
    ("outbox/relay_mysql.h", '#include "outbox/relay.h"\n', "includes go down only"),
    ("outbox/relay_seam.h", '#include "common/db.h"\n', "a contract decides without"),
    ("outbox/relay_mysql.c", "#include <mysql.h>\n", "only common/db*.c and db_handle.h"),
    ("common/err.h", "#include <mysql.h>\n", "only common/db*.c and db_handle.h"),
    ("outbox/relay_mysql.c", '#include "common/db_handle.h"\n', "only common/db*.c may look"),
    ("outbox/relay.c", "#include <librdkafka/rdkafka.h>\n", "may see librdkafka"),
    ("outbox/relay.c", "#include <curl/curl.h>\n", "may see libcurl"),
    ("outbox/retry_handler.h", '#include "outbox/relay.h"\n', "includes go down only"),
    ("common/err.h", '#include "outbox/outbox.h"\n', "common/ knows no room"),
    ("consumer/apply.c", '#include "producer/vote.h"\n', "rooms share only"),
    ("consumer/apply_command.c", '#include "outbox/relay.h"\n', "rooms share only"),
    ("outbox/relay.c", '#include "relay_seam.h"\n', "name it from the root"),
    ("outbox/relay.c", "int x(void)\n{\n" + "    ;\n" * 71 + "}\n", "relay.c:2: the function has 71"),
    ("tests/unit/test_relay.c", "\n" * 901, "test_relay.c:901: the file has 901"),
)


def floors(files):
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            place = os.path.join(root, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(content)
        run = subprocess.run([sys.executable, FLOORS, root], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


class Floors(unittest.TestCase):
    def test_a_sound_house_passes(self):
        self.assertEqual(floors(SOUND), (0, ""))

    def test_a_function_of_seventy_lines_passes(self):
        body = "int x(void)\n{\n" + "    ;\n" * 70 + "}\n"
        self.assertEqual(floors({**SOUND, "outbox/relay.c": body}), (0, ""))

    def test_each_planted_fault_is_found_alone(self):
        for path, content, words in PLANTED:
            with self.subTest(path=path, words=words):
                code, output = floors({**SOUND, path: content})
                self.assertEqual(code, 1)
                self.assertIn(words, output)
                self.assertEqual(len(output.splitlines()), 1, output)


if __name__ == "__main__":
    unittest.main()
