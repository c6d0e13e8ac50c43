#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants what tests/lint/sql looks for, and sees that it is found, and no other."""
import os
import subprocess
import sys
import tempfile
import unittest

SQL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sql")


def lint(body):
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "producer"))
        with open(os.path.join(root, "producer", "x_mysql.c"), "w", encoding="utf-8") as file:
            file.write(body)
        done = subprocess.run([sys.executable, "-B", SQL, root], capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout


class Sql(unittest.TestCase):
    def test_a_text_is_found(self):
        for body in ('buf_print(sql, "WHERE name = \'%s\'", name);',
                     'buf_print(sql,\n    "SELECT 1 "\n    "FROM %.*s", (int)len, name);',
                     'buf_print(f(sql, "x)"), "%.64s", name);'):
            code, text = lint("\n" + body)
            self.assertEqual(code, 1, body)
            self.assertIn("producer/x_mysql.c:2: a text goes into SQL as it is", text)

    def test_numbers_and_sentences_are_not(self):
        for body in ('buf_print(sql, "LIMIT %d", 3);', 'err_set(err, "%s", text);',
                     'snprintf(out, size, "%s", text);', 'buf_text_put(sql, "%s");',
                     'buf_print(sql, "DATE_FORMAT(x, \'%%s\') LIMIT %zu", n); f("%s");'):
            self.assertEqual(lint(body), (0, ""), body)


if __name__ == "__main__":
    unittest.main()
