/* SPDX-License-Identifier: MIT */
#include "common/config/live.h"

#include "common/config/parts.h"
#include "common/config/setting.h"

#include <stdatomic.h>
#include <string.h>

static bool is_same(const struct setting *setting, const struct config *a, const struct config *b)
{
    if (setting->kind == SETTING_NUMBER)
        return setting_number(setting, &a->settings) == setting_number(setting, &b->settings);
    return strcmp(setting_text(setting, &a->settings), setting_text(setting, &b->settings)) == 0;
}

/* Only the number is read by others meanwhile. */
static void take(const struct setting *setting, struct config *config, const struct config *fresh)
{
    char *to = (char *)&config->settings + setting->offset;

    if (setting->kind == SETTING_NUMBER)
        atomic_store((_Atomic int64_t *)to, setting_number(setting, &fresh->settings));
    else
        memcpy(to, setting_text(setting, &fresh->settings), setting->size);
}

static bool kafka_is_same(const struct settings *a, const struct settings *b)
{
    return a->kafka.count == b->kafka.count &&
           memcmp(a->kafka.properties, b->kafka.properties,
                  a->kafka.count * sizeof(a->kafka.properties[0])) == 0;
}

void config_take_live(struct config *config, const struct config *fresh, config_on_change on_change,
                      void *ctx)
{
    struct config_change change = {.key = "*", .section = SETTINGS_KAFKA};

    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        struct buf was = {0};
        struct buf now = {0};

        if (is_same(setting, config, fresh))
            continue;
        if (setting->live) {
            setting_put(setting, &config->settings, &was);
            setting_put(setting, &fresh->settings, &now);
            take(setting, config, fresh);
        }
        on_change(ctx, &(struct config_change){setting->section, setting->key, setting->live,
                                               buf_text(&was), buf_text(&now)});
        buf_done(&was);
        buf_done(&now);
    }
    if (!kafka_is_same(&config->settings, &fresh->settings))
        on_change(ctx, &change);
}
