/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_audit_command.h"

#include "common/buf.h"
#include "common/db/db.h"
#include "common/os.h"
#include "consumer/installation_mysql.h"
#include "outbox/retry/operate.h"

#include <inttypes.h>

static void put_word(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    buf_print(out, "%s%s=", out->len > 0 ? " " : "", name);
    buf_text_put(out, value);
}

static void put_number(struct buf *out, const char *name, int64_t value)
{
    if (value != DEAD_NUMBER_ANY)
        buf_print(out, "%s%s=%" PRId64, out->len > 0 ? " " : "", name, value);
}

/* Which records; not their content. */
static void put_what(struct buf *out, const struct dead_request *request)
{
    const struct dead_options *options = &request->options;

    for (size_t i = 0; i < request->filter.id_count; i++)
        buf_print(out, "%s%" PRId64, i > 0 ? "," : "id=", request->ids[i]);
    put_word(out, "topic", options->topic);
    put_number(out, "partition", options->partition);
    put_word(out, "class", options->reason_class);
    put_word(out, "key", options->key);
    put_word(out, "since", options->since);
    put_word(out, "until", options->until);
    put_word(out, "all", options->all ? "yes" : NULL);
    put_number(out, "limit", options->limit);
    put_word(out, "value", options->value_path ? "given" : NULL);
    put_word(out, "ignoreKey", options->ignore_key ? "yes" : NULL);
    put_word(out, "queue", options->queue ? "yes" : NULL);
}

enum rc dead_audit_begin(struct dead_audit *audit, const struct settings *settings,
                         const struct dead_request *request, struct err *err)
{
    char by[OS_OPERATOR_SIZE];
    struct buf what = {0};
    struct retry_action_view action = {
        .by = by,
        .via = "shell",
        .action = request->action == DEAD_DROP ? "dead drop" : "dead replay",
        .group = installation_group(settings),
        .why = request->options.reason,
    };
    enum rc rc;

    *audit = (struct dead_audit){.db = NULL};
    os_operator_name(by);
    put_what(&what, request);
    action.what = buf_text(&what);
    rc = db_open(&audit->db, &settings->mysql, err);
    if (rc == RC_OK)
        rc = retry_audit_write(audit->db, &action, &audit->id, err);
    if (rc != RC_OK)
        err_wrap(err, "the audit cannot be written, nothing was changed");
    buf_done(&what);
    return rc;
}

void dead_audit_end(struct dead_audit *audit, uint64_t records)
{
    retry_audit_count(audit->db, audit->id, records, NULL);
}

void dead_audit_close(struct dead_audit *audit)
{
    db_close(audit->db);
}
