/* SPDX-License-Identifier: MIT */
/* Calls a target with the contents of files: each of them whole, and those that were written by
 * hand also cut off at every byte. It replaces libFuzzer, so that any build, with or without
 * sanitizers, proves that a fixed fault does not return. fuzz_NAME FILE|FOLDER... */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A longer file is cut at these many places, evenly. */
#define CUTS_MAX 512

static size_t inputs;
static char now[4096]; /* visible in a core dump */

/* In memory of just that size, so that a read past the end is seen. */
static void give(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);

    if (!exact)
        fuzz_fail("there is memory");
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    inputs++;
}

static uint8_t *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = NULL;
    struct stat about;

    if (!file || fstat(fileno(file), &about) != 0)
        fuzz_fail("the corpus can be read");
    data = malloc((size_t)about.st_size + 1);
    fuzz_must(data != NULL, "there is memory");
    *size = fread(data, 1, (size_t)about.st_size, file);
    fclose(file);
    return data;
}

static void file_give(const char *path)
{
    size_t size;
    uint8_t *data = file_read(path, &size);
    const char *name = strrchr(path, '/');
    /* A fuzzer keeps hundreds of files and has cut them by itself. */
    bool found = name && strncmp(name + 1, "found_", 6) == 0;
    size_t cuts = found ? 0 : size < CUTS_MAX ? size : CUTS_MAX;

    snprintf(now, sizeof(now), "%s", path);
    for (size_t i = 0; i < cuts; i++)
        give(data, size * i / cuts);
    give(data, size);
    free(data);
}

static void path_give(const char *path)
{
    struct dirent **entries = NULL;
    struct stat about;
    int count;

    fuzz_must(stat(path, &about) == 0, "the corpus is there");
    if (!S_ISDIR(about.st_mode)) {
        file_give(path);
        return;
    }
    count = scandir(path, &entries, NULL, alphasort);
    fuzz_must(count >= 0, "the corpus can be listed");
    for (int i = 0; i < count; i++) {
        char name[4096];

        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            path_give(name);
        free(entries[i]);
    }
    free(entries);
}

int main(int argc, char **argv)
{
    FILE *out = stdout;

    for (int i = 1; i < argc; i++)
        path_give(argv[i]);
    if (inputs == 0) {
        fprintf(stderr, "no input: name files or folders\n");
        return 2;
    }
    fprintf(out, "%zu inputs\n", inputs);
    return 0;
}
