/* SPDX-License-Identifier: MIT */
/* Reads the options of a test program, a JSON object. The text is borrowed from the object. */
#ifndef TESTS_SUPPORT_OPTIONS_H
#define TESTS_SUPPORT_OPTIONS_H

#include <jansson.h>
#include <stdint.h>

/* "" if it is missing. */
static inline const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* 0 if it is missing. */
static inline int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

#endif
