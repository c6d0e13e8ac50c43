/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/handler_list.h"

#include "common/buf.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *read_next_name(const char *at, size_t *len)
{
    at += strspn(at, ", ");
    *len = strcspn(at, ", ");
    return at;
}

/* An empty list names all. */
static bool list_names_handler(const char *list, const char *name)
{
    const char *at = list;
    size_t len;

    if (!list[strspn(list, ", ")])
        return true;
    for (at = read_next_name(at, &len); len > 0; at = read_next_name(at + len, &len))
        if (len == strlen(name) && memcmp(at, name, len) == 0)
            return true;
    return false;
}

static enum rc check_names(const char *list, const struct retry_handlers *table, struct err *err)
{
    const char *at = list;
    struct buf known = {0};
    size_t len;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < table->count; i++)
        buf_print(&known, "%s%s", i > 0 ? ", " : "", table->list[i]->name);
    for (at = read_next_name(at, &len); len > 0 && rc == RC_OK;
         at = read_next_name(at + len, &len)) {
        size_t i = 0;

        while (i < table->count &&
               (strlen(table->list[i]->name) != len || memcmp(table->list[i]->name, at, len) != 0))
            i++;
        if (i == table->count)
            rc = err_fail(err, RC_REJECT, 0, "retry.handlers: there is no handler \"%.*s\"; %s are",
                          (int)len, at, buf_text(&known));
    }
    buf_done(&known);
    return rc;
}

/* A process that claims a task of `steps` must run every handler, because the task is not passed
 * to another process for its next step. */
static enum rc check_needs(const struct retry_handlers *all, struct err *err)
{
    const struct retry_handler *needs = NULL;

    for (size_t i = 0; i < all->count; i++)
        if (all->opened[i] && all->list[i]->needs_all)
            needs = all->list[i];
    for (size_t i = 0; needs && i < all->count; i++)
        if (!all->opened[i])
            return err_fail(err, RC_REJECT, 0,
                            "retry.handlers: a task of \"%s\" may need any handler, and \"%s\" is "
                            "not listed: list all of them, or leave \"%s\" out",
                            needs->name, all->list[i]->name, needs->name);
    return RC_OK;
}

enum rc handler_list_open(struct handler_list *list, const struct retry_handlers *table,
                          const struct retry_handler_env *env, struct err *err)
{
    struct retry_handler_env own = *env;
    enum rc rc = check_names(env->settings->retry.handlers, table, err);

    memset(list, 0, sizeof(*list));
    if (rc != RC_OK)
        return rc;
    list->handlers.list = table->list;
    list->handlers.opened = calloc(table->count + 1, sizeof(void *));
    if (!list->handlers.opened)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    own.all = &list->handlers;
    for (size_t i = 0; i < table->count && rc == RC_OK; i++) {
        const struct retry_handler *handler = table->list[i];

        list->handlers.count = i + 1;
        if (!list_names_handler(env->settings->retry.handlers, handler->name))
            continue;
        own.self = handler;
        rc = handler->open(&list->handlers.opened[i], &own, err);
        assert(rc != RC_OK || list->handlers.opened[i]);
        if (rc != RC_OK)
            err_wrap(err, "handler %s", handler->name);
    }
    return rc == RC_OK ? check_needs(&list->handlers, err) : rc;
}

void handler_list_close(struct handler_list *list)
{
    for (size_t i = list->handlers.count; i-- > 0;)
        if (list->handlers.opened[i])
            list->handlers.list[i]->close(list->handlers.opened[i]);
    free(list->handlers.opened);
    memset(list, 0, sizeof(*list));
}
