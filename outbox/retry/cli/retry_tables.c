/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_tables.h"

#include "outbox/retry/policy/policy.h"
#include "outbox/retry/policy/wait.h"

/* A '|' would end the cell. */
static void put_cell(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            buf_char(out, '\\');
        buf_char(out, *text);
    }
}

static void put_row(struct buf *out, const char *name, const char *value, const char *about)
{
    buf_print(out, "| `%s` | ", name);
    if (value[0]) {
        buf_char(out, '`');
        put_cell(out, value);
        buf_text_put(out, "` | ");
    }
    put_cell(out, about);
    buf_text_put(out, " |\n");
}

void retry_tables_put_fields(struct buf *out)
{
    buf_text_put(out, "| field | default | what |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < policy_fields_count; i++)
        put_row(out, policy_fields[i].name, policy_fields[i].default_json, policy_fields[i].about);
}

void retry_tables_put_waits(struct buf *out)
{
    buf_text_put(out, "| preset | waits | what |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < wait_presets_count; i++)
        put_row(out, wait_presets[i].name, wait_presets[i].list, wait_presets[i].about);
}

void retry_tables_put_presets(struct buf *out)
{
    buf_text_put(out, "| preset | policy | what |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < policy_presets_count; i++)
        put_row(out, policy_presets[i].name, policy_presets[i].json, policy_presets[i].about);
}

void retry_tables_put_handlers(struct buf *out, const struct retry_handlers *handlers)
{
    buf_text_put(out, "| handler | what |\n| --- | --- |\n");
    for (size_t i = 0; i < handlers->count; i++)
        put_row(out, handlers->list[i]->name, "", handlers->list[i]->about);
}
