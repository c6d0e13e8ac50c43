/* SPDX-License-Identifier: MIT */
#include "common/db/error.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES_MAX 200

/* The numbers are the protocol's: the client library's own are 2000-2999 (Oracle's and MariaDB's)
 * and 5000-5999 (MariaDB's); 3000 and up are MySQL's except where noted. */
struct meaning {
    unsigned short code;
    enum rc rc;
    bool ends_session;
};

/* Lists the codes that differ from the default (see db_error_classify()), and a few common ones for
 * clarity. */
static const struct meaning meanings[] = {
    /* The data of one statement was refused; the statement is undone, its transaction goes on. */
    {1022, RC_REJECT, false}, /* duplicate key */
    {1048, RC_REJECT, false}, /* NULL in a NOT NULL column */
    {1062, RC_REJECT, false}, /* duplicate key, with its name */
    {1118, RC_REJECT, false}, /* row too large for a page */
    {1138, RC_REJECT, false}, /* NULL where there may be none */
    {1162, RC_REJECT, false}, /* text larger than max_allowed_packet */
    {1169, RC_REJECT, false}, /* duplicate key, older words */
    {1216, RC_REJECT, false}, /* foreign key: no such parent */
    {1217, RC_REJECT, false}, /* foreign key: has children */
    {1264, RC_REJECT, false}, /* number out of range */
    {1265, RC_REJECT, false}, /* data cut */
    {1292, RC_REJECT, false}, /* not a date, not a number */
    {1299, RC_REJECT, false}, /* not a time the servers know */
    {1300, RC_REJECT, false}, /* not valid in its character set */
    {1301, RC_REJECT, false}, /* result larger than max_allowed_packet */
    {1364, RC_REJECT, false}, /* no value and no default */
    {1365, RC_REJECT, false}, /* division by zero */
    {1366, RC_REJECT, false}, /* wrong value for a column */
    {1367, RC_REJECT, false}, /* illegal value for a type */
    {1406, RC_REJECT, false}, /* too long for its column */
    {1411, RC_REJECT, false}, /* wrong value for a function */
    {1451, RC_REJECT, false}, /* foreign key: has children */
    {1452, RC_REJECT, false}, /* foreign key: no such parent */
    {1525, RC_REJECT, false}, /* wrong value for a type */
    {1526, RC_REJECT, false}, /* no partition for this value */
    {1586, RC_REJECT, false}, /* duplicate key, with its name */
    {1644, RC_REJECT, false}, /* a trigger's SIGNAL */
    {1690, RC_REJECT, false}, /* result out of range */
    {1713, RC_REJECT, false}, /* undo record too big */
    {1748, RC_REJECT, false}, /* row not in the named partitions */
    {1859, RC_REJECT, false}, /* duplicate key that the server cannot show */
    {3140, RC_REJECT, false}, /* not JSON */
    {3141, RC_REJECT, false}, /* not JSON, in a function */
    {3144, RC_REJECT, false}, /* JSON from binary bytes */
    {3150, RC_REJECT, false}, /* JSON too big for its column */
    {3151, RC_REJECT, false}, /* JSON with a name that is too long */
    {3156, RC_REJECT, false}, /* JSON of the wrong kind */
    {3157, RC_REJECT, false}, /* JSON too deep */
    {3158, RC_REJECT, false}, /* JSON with NULL for a name */
    {3819, RC_REJECT, false}, /* CHECK constraint */
    {3854, RC_REJECT, false}, /* not valid in its character set */
    {4025, RC_REJECT, false}, /* CHECK constraint, MariaDB */
    {4035, RC_REJECT, false}, /* not JSON, MariaDB; and the next five */
    {4036, RC_REJECT, false},
    {4037, RC_REJECT, false},
    {4038, RC_REJECT, false},
    {4039, RC_REJECT, false},
    {4040, RC_REJECT, false},
    /* Larger than max_allowed_packet: one statement's fault, but the connection does not live. */
    {1153, RC_REJECT, true},
    {2020, RC_REJECT, true},

    /* The settings, privileges or tables of tallybox are wrong. */
    {1044, RC_FATAL, false}, /* no privilege on the database */
    {1045, RC_FATAL, false}, /* wrong user or password */
    {1046, RC_FATAL, false}, /* no database chosen */
    {1049, RC_FATAL, false}, /* no such database */
    {1050, RC_FATAL, false}, /* table exists */
    {1051, RC_FATAL, false}, /* no such table to drop */
    {1052, RC_FATAL, false}, /* ambiguous column */
    {1054, RC_FATAL, false}, /* no such column */
    {1055, RC_FATAL, false}, /* not in GROUP BY */
    {1060, RC_FATAL, false}, /* column exists */
    {1061, RC_FATAL, false}, /* index exists */
    {1064, RC_FATAL, false}, /* syntax */
    {1065, RC_FATAL, false}, /* empty statement */
    {1071, RC_FATAL, false}, /* key too long */
    {1072, RC_FATAL, false}, /* no such key column */
    {1091, RC_FATAL, false}, /* nothing of that name to drop */
    {1102, RC_FATAL, false}, /* bad database name */
    {1103, RC_FATAL, false}, /* bad table name */
    {1109, RC_FATAL, false}, /* no such table in this place */
    {1115, RC_FATAL, false}, /* no such character set */
    {1130, RC_FATAL, false}, /* this host may not connect */
    {1131, RC_FATAL, false}, /* anonymous */
    {1132, RC_FATAL, false}, /* no privilege to change passwords */
    {1136, RC_FATAL, false}, /* column count differs */
    {1141, RC_FATAL, false}, /* no such grant */
    {1142, RC_FATAL, false}, /* no privilege on the table */
    {1143, RC_FATAL, false}, /* no privilege on the column */
    {1146, RC_FATAL, false}, /* no such table */
    {1149, RC_FATAL, false}, /* syntax */
    {1193, RC_FATAL, false}, /* no such variable */
    {1197, RC_FATAL, false}, /* transaction larger than max_binlog_cache_size */
    {1222, RC_FATAL, false}, /* UNION of different widths */
    {1227, RC_FATAL, false}, /* needs a privilege */
    {1231, RC_FATAL, false}, /* bad value for a variable */
    {1235, RC_FATAL, false}, /* not supported by this version */
    {1241, RC_FATAL, false}, /* operand of the wrong width */
    {1242, RC_FATAL, false}, /* subquery with several rows */
    {1248, RC_FATAL, false}, /* derived table without a name */
    {1251, RC_FATAL, false}, /* client too old for the login method */
    {1267, RC_FATAL, false}, /* mixed collations */
    {1273, RC_FATAL, false}, /* no such collation */
    {1286, RC_FATAL, false}, /* no such engine */
    {1290, RC_FATAL, false}, /* forbidden by a server option; see is_read_only() */
    {1305, RC_FATAL, false}, /* no such function */
    {1347, RC_FATAL, false}, /* not the right kind of object */
    {1356, RC_FATAL, false}, /* broken view */
    {1370, RC_FATAL, false}, /* no privilege on the routine */
    {1467, RC_FATAL, false}, /* AUTO_INCREMENT used up */
    {1503, RC_FATAL, false}, /* unique key without the partition column */
    {1524, RC_FATAL, false}, /* login plugin not loaded */
    {1665, RC_FATAL, false}, /* statement binlog and READ COMMITTED */
    {1698, RC_FATAL, false}, /* access denied */
    {1820, RC_FATAL, false}, /* password must be changed */
    {1862, RC_FATAL, false}, /* password expired */
    {3118, RC_FATAL, false}, /* account locked */
    {3159, RC_FATAL, false}, /* server wants TLS */
    {3955, RC_FATAL, false}, /* account locked after failed logins */
    {4150, RC_FATAL, false}, /* account locked after failed logins, MariaDB */
    {4151, RC_FATAL, false}, /* account locked, MariaDB */
    {2007, RC_FATAL, true},  /* protocol versions differ */
    {2008, RC_FATAL, true},  /* no memory */
    {2019, RC_FATAL, true},  /* no such character set */
    {2047, RC_FATAL, true},  /* no such protocol */
    {2049, RC_FATAL, true},  /* login method too old */
    {2054, RC_FATAL, true},  /* login method not in the library */
    {2059, RC_FATAL, true},  /* login plugin not found */
    {2061, RC_FATAL, true},  /* login plugin refuses, e.g. wants TLS */

    /* The server ends the connection, is leaving, or has become a replica: the next connection may
     * meet a better one. */
    {1036, RC_RETRY, true}, /* table is read only: the engine is, on a server that is no primary */
    {1040, RC_RETRY, true}, /* too many connections */
    {1042, RC_RETRY, true}, /* cannot resolve our address */
    {1043, RC_RETRY, true}, /* bad handshake */
    {1047, RC_RETRY, true}, /* unknown command: a Galera node that is not ready */
    {1053, RC_RETRY, true}, /* shutting down */
    {1077, RC_RETRY, true}, /* normal shutdown */
    {1078, RC_RETRY, true}, /* got a signal */
    {1079, RC_RETRY, true}, /* shutdown complete */
    {1080, RC_RETRY, true}, /* forcing close of threads */
    {1129, RC_RETRY, true}, /* host blocked after errors */
    {1152, RC_RETRY, true}, /* aborted connection */
    {1154, RC_RETRY, true}, /* read error */
    {1155, RC_RETRY, true}, /* read from a pipe */
    {1156, RC_RETRY, true}, /* packets out of order */
    {1157, RC_RETRY, true}, /* cannot decompress */
    {1158, RC_RETRY, true}, /* read error */
    {1159, RC_RETRY, true}, /* read time-out */
    {1160, RC_RETRY, true}, /* write error */
    {1161, RC_RETRY, true}, /* write time-out */
    {1184, RC_RETRY, true}, /* aborted connection */
    {1203, RC_RETRY, true}, /* too many connections of this user */
    {1792, RC_RETRY, true}, /* read-only transaction */
    {1836, RC_RETRY, true}, /* read-only mode */
    {1927, RC_RETRY, true}, /* killed, MariaDB */
    {3032, RC_RETRY, true}, /* offline mode */
    {3100, RC_RETRY, true}, /* group replication refused */
    {3168, RC_RETRY, true}, /* server is not available */
    {3169, RC_RETRY, true}, /* session was killed */
    {4031, RC_RETRY, true}, /* idle for too long */
    {4081, RC_RETRY, true}, /* memory of all connections used up */
    {4082, RC_RETRY, true}, /* memory of this connection used up */

    /* The transaction is undone, or its statement had to give way. */
    {1021, RC_RETRY, false}, /* disk full */
    {1114, RC_RETRY, false}, /* table full */
    {1180, RC_RETRY, false}, /* error during COMMIT */
    {1205, RC_RETRY, false}, /* lock wait time-out; NOWAIT on MariaDB */
    {1213, RC_RETRY, false}, /* deadlock */
    {1226, RC_RETRY, false}, /* this user's share per hour used up */
    {1297, RC_RETRY, false}, /* temporary trouble of an engine */
    {1317, RC_RETRY, false}, /* KILL QUERY */
    {1969, RC_RETRY, false}, /* statement time-out, MariaDB */
    {3024, RC_RETRY, false}, /* statement time-out */
    {3101, RC_RETRY, false}, /* rolled back during COMMIT by a group member */
    {3572, RC_RETRY, false}, /* NOWAIT; as 1205 on MariaDB, the statement only */
};

static const struct meaning *find_meaning(unsigned code)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (meanings[i].code == code)
            return &meanings[i];
    }
    return NULL;
}

/* 1290 names the option: --read-only and --super-read-only pass, --secure-file-priv does not. */
static bool is_read_only(unsigned code, const char *text)
{
    return code == 1290 && (strstr(text, "read-only") || strstr(text, "read_only"));
}

/* An unlisted number is RC_RETRY. An unknown refusal changed nothing, so another try is harmless,
 * while ending the process would turn a new temporary error into an outage. The error is visible in
 * the log and in readiness. */
enum rc db_error_classify(unsigned code, const char *text)
{
    const struct meaning *meaning = find_meaning(code);

    if (!meaning || is_read_only(code, text))
        return RC_RETRY;
    return meaning->rc;
}

bool db_error_ends_session(unsigned code)
{
    const struct meaning *meaning = find_meaning(code);

    /* After any error of its own the library's state is not to be trusted. 1290 ends the session
     * in all its meanings: it is rare and a new connection costs little. */
    return (code >= 2000 && code < 3000) || (code >= 5000 && code < 6000) || code == 1290 ||
           (meaning && meaning->ends_session);
}

/* Cuts at a character, not inside one. */
static size_t find_text_len(const char *text)
{
    size_t len = strlen(text);

    if (len <= TEXT_BYTES_MAX)
        return len;
    len = TEXT_BYTES_MAX;
    while (len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80)
        len--;
    return len;
}

/* Copies a name without its quotes. */
static void copy_name(char *out, size_t size, const char *text, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < len && at + 1 < size; i++) {
        if (text[i] != '\'' && text[i] != '`')
            out[at++] = text[i];
    }
    out[at] = '\0';
}

/* "SELECT command denied to user 'a'@'h' for table 't'", or "... for column 'c' in table 't'". */
static bool find_grant(char *out, size_t size, const char *text)
{
    const char *denied = strstr(text, " command denied to user ");
    const char *column = denied ? strstr(denied, " for column ") : NULL;
    const char *table = denied ? strstr(denied, " table ") : NULL;
    char names[2][130] = {"", ""};

    /* Words in lower case are no privilege but part of the server's text. */
    if (!table || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ, ") < (size_t)(denied - text))
        return false;
    if (column) {
        column += strlen(" for column ");
        copy_name(names[0], sizeof(names[0]), column, strcspn(column, " "));
    }
    table += strlen(" table ");
    copy_name(names[1], sizeof(names[1]), table, strcspn(table, " "));
    snprintf(out, size, "GRANT %.*s%s%s%s ON %s", (int)(denied - text), text,
             names[0][0] ? " (" : "", names[0], names[0][0] ? ")" : "", names[1]);
    return true;
}

bool db_error_lacks_privilege(unsigned code)
{
    return code == 1142 || code == 1143 || code == 1044 || code == 1227 || code == 1370;
}

/* Appends what to do about a privilege or a table that is missing. */
static void put_remedy(char *out, size_t size, unsigned code, const char *text)
{
    static const char see[] = "`tallybox migrate grants` prints the privileges of each role";
    char grant[320];

    out[0] = '\0';
    if ((code == 1142 || code == 1143) && find_grant(grant, sizeof(grant), text))
        snprintf(out, size, ": it lacks %s; %s", grant, see);
    else if (db_error_lacks_privilege(code))
        snprintf(out, size, ": %s", see);
    else if (code == 1146)
        snprintf(out, size, ": `tallybox migrate verify` shows which tables are missing");
}

enum rc db_error_report(struct err *err, unsigned code, const char *place, const char *text)
{
    char remedy[400];

    put_remedy(remedy, sizeof(remedy), code, text);
    return err_fail(err, db_error_classify(code, text), (int)code, "%s: %.*s (%u)%s", place,
                    (int)find_text_len(text), text, code, remedy);
}

void db_error_explain_login(struct err *err, unsigned code, const struct mysql_settings *settings)
{
    char text[sizeof(err->text)];

    snprintf(text, sizeof(text), "%s", err->text);
    if ((code == 1045 || code == 1698) && settings->account_advice[0])
        err_fail(err, RC_FATAL, (int)code, "%s: %s", text, settings->account_advice);
    else if (code == 1049 && settings->database_place[0])
        err_fail(err, RC_FATAL, (int)code, "%s: check %s", text, settings->database_place);
}
