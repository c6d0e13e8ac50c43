/* SPDX-License-Identifier: MIT */
#include "consumer/verify/verify_row.h"

#include <stdarg.h>
#include <stdio.h>

void verify_found(struct verify_result *result, const char *format, ...)
{
    va_list args;

    result->violations++;
    if (result->offender_count == VERIFY_OFFENDERS_MAX)
        return;
    va_start(args, format);
    vsnprintf(result->offenders[result->offender_count++], VERIFY_PLACE_SIZE, format, args);
    va_end(args);
}
