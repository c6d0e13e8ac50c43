#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where tests/lint/words looks, and what it finds."""

import importlib.machinery
import importlib.util
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LOADER = importlib.machinery.SourceFileLoader("words", os.path.join(HERE, "words"))
words = importlib.util.module_from_spec(importlib.util.spec_from_loader("words", LOADER))
LOADER.exec_module(words)


def found(path, content):
    return list(words.findings(path, content))


class Findings(unittest.TestCase):
    def test_comments_and_texts_of_c_are_read_and_code_is_not(self):
        self.assertEqual(found("a.c", "int dice;\n"), [])
        sentence, = found("a.c", "int x;\n/* The dice\n * fall. */\n")
        self.assertEqual(sentence, 'a.c:2: "dice": write rng')
        sentence, = found("a.c", 'puts("the clerk");\n')
        self.assertIn("a.c:1:", sentence)

    def test_a_word_in_the_second_line_of_a_comment_has_that_line(self):
        sentence, = found("a.h", "/* One.\n * Whoever reads this. */\n")
        self.assertIn("a.h:2:", sentence)

    def test_comments_of_scripts_and_documents_are_read(self):
        self.assertEqual(len(found("a.py", "x = 1  # nobody\n")), 1)
        self.assertEqual(len(found("a.sh", "# somebody\n")), 1)
        self.assertEqual(len(found("a.sql", "-- in hand\n")), 1)
        self.assertEqual(len(found("a.md", "rows in hand\n")), 1)

    def test_here_documents_and_strings_of_shell_scripts_are_read_and_code_is_not(self):
        sentence, = found("a.sh", "help() {\n    cat <<'END'\nThe dice\nEND\n}\n")
        self.assertIn("a.sh:3:", sentence)
        sentence, = found("a.sh", 'say "the clerk"\n')
        self.assertIn("a.sh:1:", sentence)
        self.assertEqual(found("a.sh", "dice=1\ncat <<END\nThis.\nEND\ndice=2\n"), [])

    def test_scripts_without_an_extension_are_read_by_their_first_line(self):
        sentence, = found("dev", "#!/usr/bin/env bash\ncat <<END\nThe dice\nEND\n")
        self.assertIn("dev:3:", sentence)
        self.assertEqual(len(found("lint", '#!/usr/bin/env python3\n"""Nobody."""\n')), 1)
        self.assertEqual(len(found(".ci/run", "#!/bin/sh\n# The dice.\n")), 1)
        self.assertEqual(found("LICENSE", "The dice.\n"), [])

    def test_sentences_of_mutants_are_read_and_their_diffs_are_not(self):
        self.assertEqual(len(found("m.fault", "Nobody wakes the key.\n")), 1)
        sentence, = found("m.patch", "The dice\nfall.\n--- a/x.c\n+++ b/x.c\n-    /* nobody */\n")
        self.assertIn("m.patch:1:", sentence)

    def test_parts_of_other_words_are_no_findings(self):
        self.assertEqual(found("a.md", "the original recommends right trigger sweeping"), [])


class Files(unittest.TestCase):
    def test_a_tracked_file_that_was_deleted_is_skipped(self):
        with tempfile.TemporaryDirectory() as root:
            for name in ("dev", "a.md", "deleted.c", "b.png", "m.fault", "m.patch"):
                with open(os.path.join(root, name), "w", encoding="utf-8"):
                    pass
            for command in (["git", "init", "-q"], ["git", "add", "."]):
                subprocess.run(command, cwd=root, check=True)
            os.remove(os.path.join(root, "deleted.c"))
            self.assertEqual(sorted(words.listed_files(root)), ["a.md", "dev", "m.fault", "m.patch"])


if __name__ == "__main__":
    unittest.main()
