/* SPDX-License-Identifier: MIT */
#include "producer/http/fault.h"

#include "common/utf8.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

static const struct {
    const char *name;
    int status;
} codes[] = {
    [FAULT_NOT_JSON] = {"not_json", 400},
    [FAULT_WRONG_TYPE] = {"wrong_type", 400},
    [FAULT_MISSING] = {"missing", 400},
    [FAULT_UNKNOWN] = {"unknown_field", 400},
    [FAULT_OUT_OF_RANGE] = {"out_of_range", 400},
    [FAULT_DUPLICATE] = {"duplicate", 400},
    [FAULT_REFUSED] = {"refused", 422},
    [FAULT_NOT_FOUND] = {"not_found", 404},
    [FAULT_METHOD] = {"method_not_allowed", 405},
    [FAULT_MEDIA_TYPE] = {"unsupported_media_type", 415},
    [FAULT_TOO_LARGE] = {"too_large", 413},
    [FAULT_NO_TOKEN] = {"unauthorized", 401},
    [FAULT_NO_SCOPE] = {"forbidden", 403},
    [FAULT_OTHER_HOST] = {"misdirected_request", 421},
    [FAULT_BAD_REQUEST] = {"bad_request", 400},
    [FAULT_FULL] = {"too_many_requests", 429},
    [FAULT_AWAY] = {"unavailable", 503},
    [FAULT_TIMEOUT] = {"timeout", 503},
};

const char *fault_name(enum fault_code code)
{
    return codes[code].name;
}

int fault_status(enum fault_code code)
{
    return codes[code].status;
}

void fault_set(struct fault *fault, enum fault_code code, const char *format, ...)
{
    va_list args;

    fault->code = code;
    fault->has_at = false;
    va_start(args, format);
    vsnprintf(fault->message, sizeof(fault->message), format, args);
    va_end(args);
    utf8_clean(fault->message);
}

void fault_at(struct fault *fault, const char *at)
{
    fault->has_at = true;
    snprintf(fault->at, sizeof(fault->at), "%s", at);
}

void fault_put_text(struct buf *out, const char *text)
{
    buf_char(out, '"');
    while (*text) {
        unsigned char byte = (unsigned char)*text;
        size_t len = utf8_len(text);

        if (len == 0)
            buf_char(out, '?');
        else if (byte == '"' || byte == '\\')
            buf_print(out, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f)
            buf_print(out, "\\u%04x", (unsigned)byte);
        else
            buf_put(out, text, len);
        text += len > 0 ? len : 1;
    }
    buf_char(out, '"');
}

void fault_put(struct buf *out, const struct fault *fault)
{
    buf_text_put(out, "{\"error\":{\"code\":\"");
    buf_text_put(out, fault_name(fault->code));
    buf_text_put(out, "\",\"message\":");
    fault_put_text(out, fault->message);
    if (fault->has_at) {
        buf_text_put(out, ",\"at\":");
        fault_put_text(out, fault->at);
    }
    buf_text_put(out, "}}");
}

void fault_place(struct fault *fault, bool array, size_t index, const char *field)
{
    char at[sizeof(fault->at)];
    size_t len = 0;

    at[0] = '\0';
    if (array)
        len = (size_t)snprintf(at, sizeof(at), "/%zu", index);
    if (field && len + 1 < sizeof(at))
        at[len++] = '/';
    for (; field && *field && len + 3 < sizeof(at); field++) {
        if (*field == '~' || *field == '/') {
            at[len++] = '~';
            at[len++] = *field == '~' ? '0' : '1';
        } else {
            at[len++] = *field;
        }
    }
    at[len] = '\0';
    fault_at(fault, at);
}
