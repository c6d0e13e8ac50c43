#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tests/lint/log_events finds between the calls and the table."""

import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = importlib.machinery.SourceFileLoader("log_events", os.path.join(HERE, "log_events"))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("log_events", LOADER))
LOADER.exec_module(lint)


class UsedEvents(unittest.TestCase):
    def test_the_name_is_found_wherever_it_stands_among_the_arguments(self):
        self.assertEqual(lint.used_events('log_event(LOG_INFO, "one", "a=%s", a);'), {"one"})
        self.assertEqual(lint.used_events('log_error(level_of(a, b), "two", &err, "a=%s", b);'),
                         {"two"})
        self.assertEqual(lint.used_events('log_event(x ? LOG_WARN : LOG_INFO,\n'
                                          '          x ? "three" : "four", "n=%zu", n);'),
                         {"three", "four"})

    def test_a_table_of_names_is_read(self):
        self.assertEqual(lint.used_events('[MIGRATE_WAIT] = "one",'), {"one"})
        self.assertEqual(lint.used_events('[CONDITION_WORK] = {"two", "three"},\n'
                                          '[CONDITION_SILENT] = {NULL, NULL},'), {"two", "three"})

    def test_other_strings_are_no_events(self):
        self.assertEqual(lint.used_events('puts("five"); log_event(LOG_INFO, "six", "");'), {"six"})


class Differences(unittest.TestCase):
    def test_equal_sets_differ_in_nothing(self):
        self.assertEqual(list(lint.differences({"one": "a.c"}, ["one"])), [])

    def test_each_kind_of_difference_is_named(self):
        missing, = lint.differences({"one": "a.c"}, [])
        self.assertIn("a.c logs one, which is not in", missing)
        unused, = lint.differences({}, ["one"])
        self.assertIn("has one, which is not logged anywhere", unused)
        twice, = lint.differences({"one": "a.c"}, ["one", "one"])
        self.assertIn("has one twice", twice)


class Files(unittest.TestCase):
    def test_a_tracked_file_that_was_deleted_is_skipped(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("kept.c", "deleted.c"):
                with open(os.path.join(root, name), "w", encoding="utf-8"):
                    pass
            for command in (["git", "init", "-q"], ["git", "add", "."]):
                subprocess.run(command, cwd=root, check=True)
            os.remove(os.path.join(root, "deleted.c"))
            self.assertEqual(lint.listed_files(root), ["kept.c"])


if __name__ == "__main__":
    unittest.main()
