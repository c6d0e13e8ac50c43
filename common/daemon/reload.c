/* SPDX-License-Identifier: MIT */
#include "common/daemon/reload.h"

#include "common/config/config.h"
#include "common/http/guard.h"
#include "common/kafka/kafka.h"
#include "common/log.h"

struct reload {
    size_t changed;
    struct buf kept; /* names of what needs a restart */
};

static void on_change(void *ctx, const struct config_change *change)
{
    struct reload *reload = ctx;

    if (!change->live) {
        buf_print(&reload->kept, "%s%s.%s", reload->kept.len > 0 ? "," : "", change->section,
                  change->key);
        return;
    }
    reload->changed++;
    log_event(LOG_INFO, "setting_changed", "setting=%s.%s from=%s to=%s", change->section,
              change->key, change->was, change->now);
}

void reload_settings(struct config *config, const struct options *options, const char *role)
{
    struct reload reload = {0};
    struct config *fresh = NULL;
    struct err err = {0};
    enum rc rc = options_read(options, &fresh, &err);

    if (rc == RC_OK)
        rc = kafka_conf_check(config_settings(fresh), &err);
    if (rc == RC_OK) {
        config_take_live(config, fresh, on_change, &reload);
        log_init(options_log_level(config_settings(config)));
        if (reload.kept.len > 0)
            log_event(LOG_WARN, "settings_need_restart", "role=%s settings=%s", role,
                      buf_text(&reload.kept));
        log_event(LOG_INFO, "reloaded", "role=%s changed=%zu", role, reload.changed);
    } else {
        log_error(LOG_ERROR, "reload_failed", &err, "role=%s hint=\"nothing has changed\"", role);
    }
    /* The token files that the old settings name may have changed, too. */
    http_guards_reload();
    buf_done(&reload.kept);
    config_free(fresh);
}
