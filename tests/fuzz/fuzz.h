/* SPDX-License-Identifier: MIT */
/* What fuzz targets share. A target is one file: a function that libFuzzer calls with bytes it made
 * up, and that tests/fuzz/replay.c calls with those of a file. One thread. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns 0. What must hold and does not ends the process. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says what does not hold, and aborts: that is what a fuzzer looks for. */
_Noreturn void fuzz_fail(const char *what);

static inline void fuzz_must(bool holds, const char *what)
{
    if (!holds)
        fuzz_fail(what);
}

/* An error's sentence: it is there, it is UTF-8, and no byte in it steers a terminal or begins a
 * line. */
void fuzz_must_be_sentence(const char *text);

/* The input, taken apart from its beginning. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

/* 0 at the end. */
uint8_t fuzz_byte(struct fuzz_input *input);

/* Up to `until`, which is taken as well, or to the end. The text is the caller's, exactly as long
 * as it needs to be, and ends at its first zero byte. */
char *fuzz_text(struct fuzz_input *input, char until);

/* A file of these bytes that is only in memory and its owner's, and its name; to be closed. */
#define FUZZ_PATH_SIZE 64
int fuzz_file(const void *bytes, size_t len, char path[FUZZ_PATH_SIZE]);

/* What the program prints goes nowhere from now on; the fuzzer and fuzz_must() are still heard. */
void fuzz_silence(void);

#endif
