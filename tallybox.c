/* SPDX-License-Identifier: MIT */
#include <tallybox/retry_handler.h>

int main(int argc, char **argv)
{
    return tallybox_main(argc, argv, NULL, 0);
}
