# SPDX-License-Identifier: MIT
tallybox_test(test_config unit unit/test_config.c LINKS common)
tallybox_test(test_config_file flow flow/test_config_file.c LINKS common)
