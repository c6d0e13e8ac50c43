/* SPDX-License-Identifier: MIT */
/* Where the value of a setting came from, as error texts and `tallybox config` name it. Pure; the
 * main thread. */
#ifndef COMMON_CONFIG_PLACE_H
#define COMMON_CONFIG_PLACE_H

#include "common/err.h"

#include <stddef.h>

#define ENVIRONMENT_PREFIX "TALLYBOX_"
#define PLACE_SIZE 192

enum config_from {
    FROM_DEFAULT,
    FROM_FILE,
    FROM_ENVIRONMENT,
    FROM_SET,
    FROM_PASSWORD_FILE, /* a password, read from its password_file */
    FROM_MYSQL,         /* a setting of [sink] left to [mysql] */
    FROM_RELAY,         /* a setting of [lane.NAME] left to [relay] */
};

struct config_source {
    enum config_from from;
    int line; /* of the file, from 1 */
};

/* "relay", "lease_ms" -> "RELAY_LEASE_MS". Dots become underscores. */
void place_environment_name(const char *section, const char *key, char *name, size_t size);

/* "tallybox.ini:12", "environment TALLYBOX_RELAY_LEASE_MS" ... path: of the file that was read. */
void place_put(const char *path, struct config_source source, const char *section, const char *key,
               char place[PLACE_SIZE]);

/* Puts the place and the setting in front of what err says. Returns RC_FATAL. */
enum rc place_blame(const char *path, struct config_source source, const char *section,
                    const char *key, struct err *err);

/* RC_FATAL: the file sets this setting a second time. Of two lines far apart the first is easily
 * taken for the one that counts. */
enum rc place_check_once(struct config_source was, struct config_source now, struct err *err);

#endif
