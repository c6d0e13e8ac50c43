# SPDX-License-Identifier: MIT
"""Defaults of a database server for new sessions: what our tests' own sessions set against them, and
the worst of them, for a test of the program."""

# A test's own session does not depend on the server's defaults, which a test may have changed.
SESSION = ("SET time_zone = '+00:00', autocommit = 1, completion_type = 0, "
           "sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615, "
           "sql_big_selects = 1, sql_safe_updates = 0, unique_checks = 1, foreign_key_checks = 1, "
           "innodb_lock_wait_timeout = 50, wait_timeout = 28800 /*!80000 , "
           "transaction_isolation = 'REPEATABLE-READ', transaction_read_only = 0, "
           "max_execution_time = 0 */ /*M! , tx_isolation = 'REPEATABLE-READ', tx_read_only = 0, "
           "max_statement_time = 0, idle_transaction_timeout = 0, "
           "idle_write_transaction_timeout = 0 */")

PLANS_OFF = ("index_merge=off,derived_merge=off,semijoin=off,mrr=on,index_condition_pushdown=off,"
             "materialization=off")

# The worst that a server takes as a default for new sessions.
HOSTILE = {
    "autocommit": 0, "time_zone": "+13:00", "completion_type": "CHAIN", "sql_select_limit": 3,
    "sql_mode": "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT,NO_UNSIGNED_SUBTRACTION",
    "sql_safe_updates": 1, "sql_auto_is_null": 1, "unique_checks": 0, "foreign_key_checks": 0,
    "max_join_size": 1, "max_sort_length": 64, "optimizer_switch": PLANS_OFF,
    "innodb_lock_wait_timeout": 1, "lock_wait_timeout": 1, "wait_timeout": 1,
    "net_read_timeout": 1, "net_write_timeout": 1, "collation_connection": "utf8mb4_general_ci",
}
HOSTILE_OF = {
    "mariadb": {
        "tx_isolation": "SERIALIZABLE", "tx_read_only": 1, "max_statement_time": 0.002,
        "idle_transaction_timeout": 1, "idle_write_transaction_timeout": 1,
        "idle_readonly_transaction_timeout": 1, "old_mode": "ZERO_DATE_TIME_CAST",
        "sql_if_exists": 1, "check_constraint_checks": 0, "query_cache_type": "ON",
        "in_predicate_conversion_threshold": 2, "optimizer_max_sel_arg_weight": 10,
    },
    "mysql": {
        "transaction_isolation": "SERIALIZABLE", "transaction_read_only": 1,
        "max_execution_time": 2, "range_optimizer_max_mem_size": 100,
    },
}
# These our sessions leave as they are: some need the rights of an administrator, and our SQL has to do
# with any of them.
ENDURED_OF = {
    "mariadb": {"default_storage_engine": "MyISAM", "explicit_defaults_for_timestamp": 0,
                "auto_increment_increment": 3, "innodb_strict_mode": 0, "big_tables": 1,
                "div_precision_increment": 0, "group_concat_max_len": 4, "sql_buffer_result": 1,
                "innodb_snapshot_isolation": 1, "max_error_count": 0},
    "mysql": {"default_storage_engine": "MyISAM", "explicit_defaults_for_timestamp": 0,
              "auto_increment_increment": 3, "innodb_strict_mode": 0, "big_tables": 1,
              "div_precision_increment": 0, "group_concat_max_len": 4, "sql_buffer_result": 1,
              "sql_require_primary_key": 1, "sql_generate_invisible_primary_key": 1,
              "information_schema_stats_expiry": 31536000, "max_error_count": 0},
}


def hostile(database):
    """What every session of the program has to set for itself, at its worst."""
    return {**HOSTILE, **HOSTILE_OF[database]}
