#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants each fault that tests/lint/layers looks for, and sees that it is found, and no other."""
import importlib.machinery
import os
import subprocess
import sys
import tempfile
import types
import unittest

LAYERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(LAYERS)))

SOUND = {
    "main.c": '#include "outbox/relay/relay_command.h"\n#include "producer/vote/vote_command.h"\n',
    "common/db/db.h": "",
    "common/db/db.c": '#include "common/db/db.h"\n#include <mysql.h>\n',
    "common/db/handle.h": "#include <mysql.h>\n",
    "common/db/error.c": '#include "common/db/handle.h"\n',
    "common/err.h": "",
    "common/kafka/error.c": "#include <librdkafka/rdkafka.h>\n",
    "outbox/outbox.h": '#include "common/err.h"\n',
    "outbox/outbox_mysql.c": '#include "outbox/outbox.h"\n#include "common/db/db.h"\n',
    "outbox/relay/relay.h": '#include "outbox/relay/relay_ops.h"\n',
    "outbox/relay/relay.c": '#include "outbox/relay/relay.h"\n#include "common/err.h"\n',
    "outbox/relay/relay_ops.h": '#include "common/err.h"\n',
    "outbox/relay/relay_mysql.h": '#include "outbox/relay/relay_ops.h"\n'
                                  '#include "common/db/db.h"\n',
    "outbox/relay/relay_kafka.c": "#include <librdkafka/rdkafka.h>\n",
    "outbox/relay/relay_command.h": '#include "outbox/relay/relay.h"\n'
                                    '#include "outbox/relay/relay_mysql.h"\n',
    "outbox/retry/handler.h": "",
    "outbox/retry/store/claim.h": "",
    "outbox/retry/handlers/call_http.c": "#include <curl/curl.h>\n",
    "outbox/retry/handlers/call_handler.c": '#include "outbox/relay/relay.h"\n'
                                            '#include "outbox/relay/relay_mysql.h"\n'
                                            '#include "outbox/retry/handler.h"\n',
    "producer/vote/vote.h": "",
    "producer/vote/vote_command.h": '#include "producer/vote/vote.h"\n'
                                    '#include "outbox/outbox.h"\n',
    "schema/vote_event.h": "",
    "consumer/apply/apply.c": '#include "schema/vote_event.h"\n',
    "tests/unit/test_relay.c": '#include "outbox/relay/relay.h"\n'
                               '#include "consumer/apply/apply.c"\n',
}

# What is planted: file, its content, and what must be said about it.
PLANTED = (
    ("outbox/relay/relay.c", '#include "outbox/relay/relay_mysql.h"\n', "relay.c:1: an engine sees"),
    ("outbox/relay/relay.c", '#include "outbox/retry/store/claim.h"\n', "relay.c:1: an engine sees"),
    ("outbox/relay/relay.c", '#include "outbox/relay/relay_command.h"\n',
     "relay.c:1: includes go down only"),
    ("outbox/relay/relay.c", '\n#include "common/db/db.h"\n',
     "relay.c:2: an engine decides without"),
    ("outbox/relay/relay_ops.h", '#include "outbox/relay/relay.h"\n', "includes go down only"),
    ("outbox/relay/relay_mysql.h", '#include "outbox/relay/relay.h"\n', "includes go down only"),
    ("outbox/relay/relay_ops.h", '#include "common/db/db.h"\n', "a contract decides without"),
    ("outbox/relay/relay_mysql.c", "#include <mysql.h>\n", "only common/db/ may see"),
    ("common/err.h", "#include <mysql.h>\n", "only common/db/ may see"),
    ("outbox/relay/relay_mysql.c", '#include "common/db/handle.h"\n', "only common/db/ may look"),
    ("outbox/relay/relay.c", "#include <librdkafka/rdkafka.h>\n", "may see librdkafka"),
    ("outbox/relay/relay.c", "#include <curl/curl.h>\n", "may see libcurl"),
    ("outbox/retry/handler.h", '#include "outbox/relay/relay.h"\n', "includes go down only"),
    ("common/err.h", '#include "outbox/outbox.h"\n', "common/ knows no component"),
    ("consumer/apply/apply.c", '#include "producer/vote/vote.h"\n', "components share only"),
    ("consumer/apply/apply_command.c", '#include "outbox/relay/relay.h"\n',
     "components share only"),
    ("outbox/relay/relay.c", '#include "relay_ops.h"\n', "name it from the root"),
    ("outbox/new/engine.c", "\n", "outbox/new/engine.c:1: no line of the table"),
    ("outbox/relay/relay.c", "int x(void)\n{\n" + "    ;\n" * 71 + "}\n",
     "relay.c:2: the function has 71"),
    ("tests/unit/test_relay.c", "\n" * 901, "test_relay.c:901: the file has 901"),
)


def lint(files):
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            place = os.path.join(root, path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(content)
        run = subprocess.run([sys.executable, LAYERS, root], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


def table():
    loader = importlib.machinery.SourceFileLoader("layers", LAYERS)
    module = types.ModuleType("layers")
    loader.exec_module(module)
    return module


class Layers(unittest.TestCase):
    def test_a_sound_tree_passes(self):
        self.assertEqual(lint(SOUND), (0, ""))

    def test_a_function_of_seventy_lines_passes(self):
        body = "int x(void)\n{\n" + "    ;\n" * 70 + "}\n"
        self.assertEqual(lint({**SOUND, "outbox/relay/relay.c": body}), (0, ""))

    def test_each_planted_fault_is_found_alone(self):
        for path, content, words in PLANTED:
            with self.subTest(path=path, words=words):
                code, output = lint({**SOUND, path: content})
                self.assertEqual(code, 1)
                self.assertIn(words, output)
                self.assertEqual(len(output.splitlines()), 1, output)

    def test_each_line_of_the_table_is_the_first_one_for_some_file(self):
        layers = table()
        unused = list(layers.LAYERS)
        for path in layers.sources(ROOT):
            if path.endswith((".c", ".h")) and layers.is_of_program(path):
                line = next(line for line, (expression, _) in
                            zip(layers.LAYERS, layers.LAYER_EXPRESSIONS) if expression.match(path))
                if line in unused:
                    unused.remove(line)
        self.assertEqual(unused, [])


if __name__ == "__main__":
    unittest.main()
