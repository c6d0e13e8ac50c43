/* SPDX-License-Identifier: MIT */
#include "common/config/place.h"

#include <ctype.h>
#include <stdio.h>

void place_environment_name(const char *section, const char *key, char *name, size_t size)
{
    int len = snprintf(name, size, "%s_%s", section, key);

    for (int i = 0; i < len && (size_t)i < size; i++)
        name[i] = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
}

void place_put(const char *path, struct config_source source, const char *section, const char *key,
               char place[PLACE_SIZE])
{
    char name[PLACE_SIZE - 32];

    switch (source.from) {
    case FROM_DEFAULT:
        snprintf(place, PLACE_SIZE, "default");
        return;
    case FROM_FILE:
        snprintf(place, PLACE_SIZE, "%.160s:%d", path, source.line);
        return;
    case FROM_ENVIRONMENT:
        place_environment_name(section, key, name, sizeof(name));
        snprintf(place, PLACE_SIZE, "environment " ENVIRONMENT_PREFIX "%s", name);
        return;
    case FROM_SET:
        snprintf(place, PLACE_SIZE, "--set %.70s.%.110s", section, key);
        return;
    case FROM_PASSWORD_FILE:
        snprintf(place, PLACE_SIZE, "the file in %s.password_file", section);
        return;
    case FROM_MYSQL:
        snprintf(place, PLACE_SIZE, "as mysql.%.128s", key);
        return;
    case FROM_RELAY:
        snprintf(place, PLACE_SIZE, "as relay.%.128s", key);
        return;
    }
}

enum rc place_blame(const char *path, struct config_source source, const char *section,
                    const char *key, struct err *err)
{
    char place[PLACE_SIZE];

    place_put(path, source, section, key, place);
    /* Places on the command line and in the environment name their setting, others do not. */
    if (source.from == FROM_SET || source.from == FROM_ENVIRONMENT)
        err_wrap(err, "%s", place);
    else
        err_wrap(err, "%s: %s.%.60s", place, section, key);
    return RC_FATAL;
}

enum rc place_check_once(struct config_source was, struct config_source now, struct err *err)
{
    if (was.from == FROM_FILE && now.from == FROM_FILE)
        return err_fail(err, RC_FATAL, 0, "is set in line %d already", was.line);
    return RC_OK;
}
