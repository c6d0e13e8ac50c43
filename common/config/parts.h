/* SPDX-License-Identifier: MIT */
/* What the files behind config.h share; nobody else includes this. */
#ifndef COMMON_CONFIG_PARTS_H
#define COMMON_CONFIG_PARTS_H

#include "common/config/config.h"
#include "common/config/settings.h"

#include <stdio.h>

#define CONFIG_PLACE_SIZE 192
#define CONFIG_FILE_STANDARD "tallybox.ini"

enum config_from {
    FROM_DEFAULT,
    FROM_FILE,
    FROM_ENVIRONMENT,
    FROM_SET,
    FROM_PASSWORD_FILE, /* a password, read from its password_file */
    FROM_MYSQL,         /* a setting of [sink] left to [mysql] */
};

struct config_source {
    enum config_from from;
    int line; /* of the file, from 1 */
};

struct config {
    struct settings settings;
    char *path;                    /* of the file that was read, or NULL */
    struct config_source *sources; /* one per entry of settings_table */
    struct config_source kafka_sources[KAFKA_PROPERTIES_MAX];
};

/* Checks and stores one value. RC_FATAL: err names the place. */
enum rc config_assign(struct config *config, const char *section, const char *key,
                      const char *value, struct config_source source, struct err *err);

/* Is section one of ours? RC_FATAL: err names it and the nearest one, but no place. */
enum rc config_check_section(const char *section, struct err *err);

/* Where a value came from, for people: "tallybox.ini:12", "environment TALLYBOX_RELAY_LEASE_MS". */
void config_place(const struct config *config, struct config_source source, const char *section,
                  const char *key, char place[CONFIG_PLACE_SIZE]);

/* Puts the place and the setting in front of what err says. */
void config_blame(const struct config *config, struct config_source source, const char *section,
                  const char *key, struct err *err);

/* Reads an INI file whose name for people is config->path; each key once. */
enum rc config_read_file(struct config *config, FILE *file, struct err *err);

/* After all sources: reads the password files, fills in [sink], checks what one setting says
 * about another. */
enum rc config_complete(struct config *config, struct err *err);

#endif
