/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/connector.h"

#include "outbox/adopt/setting_line.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_SIZE 40

static const char mysql_class[] = "io.debezium.connector.mysql.MySqlConnector";
static const char mariadb_class[] = "io.debezium.connector.mariadb.MariaDbConnector";

/* Connect takes numbers and truth values where a text is meant. NULL: another kind. */
static json_t *text_of(const json_t *value)
{
    char number[NUMBER_SIZE];

    if (json_is_integer(value)) {
        snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return json_string(number);
    }
    if (json_is_boolean(value))
        return json_string(json_is_true(value) ? "true" : "false");
    if (json_is_string(value)) {
        const char *text = json_string_value(value);
        size_t len = strlen(text);

        while (isspace((unsigned char)*text)) {
            text++;
            len--;
        }
        while (len > 0 && isspace((unsigned char)text[len - 1]))
            len--;
        return json_stringn(text, len);
    }
    return NULL;
}

static enum rc take_options(struct connector *connector, json_t *config, struct err *err)
{
    const char *name;
    json_t *value;

    connector->options = json_object();
    if (!connector->options)
        return err_fail(err, RC_FATAL, 0, "no memory for a configuration");
    json_object_foreach(config, name, value) {
        if (!setting_line_is_one(name))
            return err_fail(err, RC_REJECT, 0,
                            "the name of the option \"%.100s\" has a control character", name);
        if (json_is_null(value))
            continue;
        if (json_is_object(value) || json_is_array(value) || json_is_real(value))
            return err_fail(err, RC_REJECT, 0, "the option \"%.100s\" is not a text", name);
        if (json_object_set_new(connector->options, name, text_of(value)) != 0)
            return err_fail(err, RC_FATAL, 0, "no memory for a configuration");
    }
    return RC_OK;
}

static enum rc check_class(struct connector *connector, struct err *err)
{
    const char *class = connector_option(connector, "connector.class");

    if (!class)
        return err_fail(err, RC_REJECT, 0,
                        "no connector.class: expected the JSON of a connector, as GET "
                        "/connectors/NAME answers, or its \"config\" alone");
    connector->mariadb = strcmp(class, mariadb_class) == 0 || strcmp(class, "MariaDb") == 0 ||
                         strcmp(class, "MariaDbConnector") == 0;
    if (connector->mariadb || strcmp(class, mysql_class) == 0 || strcmp(class, "MySql") == 0 ||
        strcmp(class, "MySqlConnector") == 0)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "connector.class is %.120s: only %s and %s can be taken over", class,
                    mysql_class, mariadb_class);
}

static enum rc take_root(struct connector *connector, json_t *root, struct err *err)
{
    json_t *config = json_object_get(root, "config");
    json_t *name = json_object_get(root, "name");
    enum rc rc;

    if (!json_is_object(root) || (config && !json_is_object(config)))
        return err_fail(err, RC_REJECT, 0,
                        "expected an object: the JSON of a connector, as GET /connectors/NAME "
                        "answers, or its \"config\" alone");
    rc = take_options(connector, config ? config : root, err);
    if (rc == RC_OK && json_is_string(name) &&
        json_object_set(connector->options, "name", name) != 0)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a configuration");
    connector->name = connector_option_or(connector, "name", "");
    if (rc == RC_OK && !setting_line_is_one(connector->name))
        rc = err_fail(err, RC_REJECT, 0, "the name of the connector has a control character");
    return rc == RC_OK ? check_class(connector, err) : rc;
}

enum rc connector_parse(struct connector *connector, const char *text, size_t len, struct err *err)
{
    json_error_t error;
    json_t *root;
    enum rc rc;

    memset(connector, 0, sizeof(*connector));
    connector->name = "";
    if (len == 0)
        return err_fail(err, RC_REJECT, 0, "the file is empty");
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return err_fail(err, RC_REJECT, 0, "it is not JSON: line %d, column %d", error.line,
                        error.column);
    rc = take_root(connector, root, err);
    json_decref(root);
    if (rc != RC_OK)
        connector_done(connector);
    return rc;
}

void connector_done(struct connector *connector)
{
    json_decref(connector->options);
    connector->options = NULL;
    connector->name = "";
}

const char *connector_option(const struct connector *connector, const char *option)
{
    return json_string_value(json_object_get(connector->options, option));
}

const char *connector_option_or(const struct connector *connector, const char *option,
                                const char *standard)
{
    const char *value = connector_option(connector, option);

    return value && *value ? value : standard;
}
