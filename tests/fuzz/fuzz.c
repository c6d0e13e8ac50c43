/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memfd_create() */
#include "tests/fuzz/fuzz.h"

#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void fuzz_fail(const char *what)
{
    /* Past stderr, which may be silent. */
    dprintf(STDERR_FILENO, "this does not hold: %s\n", what);
    abort();
}

void fuzz_must_be_sentence(const char *text)
{
    fuzz_must(*text != '\0', "an error has a sentence");
    for (size_t len; *text; text += len) {
        len = utf8_len(text);
        fuzz_must(len > 0, "an error's sentence is UTF-8");
        fuzz_must((unsigned char)*text >= 0x20 && *text != 0x7f,
                  "an error's sentence holds no control byte");
    }
}

uint8_t fuzz_byte(struct fuzz_input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

char *fuzz_text(struct fuzz_input *input, char until)
{
    const uint8_t *end = input->size > 0 ? memchr(input->data, until, input->size) : NULL;
    size_t len = end ? (size_t)(end - input->data) : input->size;
    char *text = malloc(len + 1);

    fuzz_must(text != NULL, "there is memory");
    if (len > 0)
        memcpy(text, input->data, len);
    text[len] = '\0';
    len += end ? 1 : 0;
    input->data += len;
    input->size -= len;
    /* Without a zero byte behind the data, so that the sanitizer catches a read past the end. */
    return realloc(text, strlen(text) + 1);
}

int fuzz_file(const void *bytes, size_t len, char path[FUZZ_PATH_SIZE])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    fuzz_must(fd >= 0 && fchmod(fd, S_IRUSR) == 0 && write(fd, bytes, len) == (ssize_t)len,
              "a file in memory can be made");
    snprintf(path, FUZZ_PATH_SIZE, "/proc/self/fd/%d", fd);
    return fd;
}

void fuzz_silence(void)
{
    static FILE *nowhere;

    if (nowhere)
        return;
    nowhere = fopen("/dev/null", "w");
    fuzz_must(nowhere != NULL, "/dev/null is there");
    stdout = nowhere;
    stderr = nowhere;
}
