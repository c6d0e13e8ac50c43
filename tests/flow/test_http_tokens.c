/* SPDX-License-Identifier: MIT */
#include "common/http/tokens.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST "first-token-0123456789"
#define SECOND "c2Vjb25kIHRva2VuLi4u+/.~_=="

/* The code that a sanitizer adds takes any number of steps. */
#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STEPS_COUNT 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPS_COUNT 0
#endif
#ifndef STEPS_COUNT
#define STEPS_COUNT 1
#endif

static char path[64];

static void file_write(const char *text, size_t len, mode_t mode)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int setup(void **state)
{
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "/tmp/tallybox-tokens-XXXXXX");
    fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void each_line_is_a_token(void **state)
{
    static const char text[] = "# of May\n" FIRST "\r\n\n" SECOND;
    struct http_tokens tokens = {0};
    struct http_scopes scopes;
    struct err err = {0};

    (void)state;
    file_write(text, sizeof(text) - 1, 0640);
    assert_int_equal(http_tokens_read(&tokens, path, &err), RC_OK);
    assert_int_equal(tokens.count, 2);
    assert_true(http_tokens_allow(&tokens, "Bearer " FIRST, &scopes));
    assert_true(http_tokens_allow(&tokens, "bearer  " SECOND, &scopes));
    assert_false(http_tokens_allow(&tokens, NULL, &scopes));
    assert_false(http_tokens_allow(&tokens, "", &scopes));
    assert_false(http_tokens_allow(&tokens, "Bearer ", &scopes));
    assert_false(http_tokens_allow(&tokens, FIRST, &scopes));
    assert_false(http_tokens_allow(&tokens, "Basic " FIRST, &scopes));
    assert_false(http_tokens_allow(&tokens, "Bearer " FIRST "x", &scopes));
    assert_false(http_tokens_allow(&tokens, "Bearer first-token-012345678", &scopes));
    assert_false(http_tokens_allow(&tokens, "Bearer # of May", &scopes));
}

static void a_bad_file_is_named_and_its_tokens_are_not(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        const char *said;
    } cases[] = {
        {FIRST "\n" SECOND "\n", 0604, "open to every account of this machine (mode 604)"},
        {FIRST "\n" SECOND "\n", 0602, "chmod o="},
        {"\n#\n", 0600, ": has no token"},
        {"", 0600, ": has no token"},
        {FIRST "\nshort-token-1234567\n", 0600, ":2: has a token of 19 characters"},
        {"first-token! 0123456789\n", 0600, ":1: has a character that is not allowed"},
        {FIRST "\n" FIRST " read\n", 0600, ":2: has the same token as an earlier line"},
        {FIRST " votes\n" SECOND " vote\n", 0600, ":2: has an unknown scope after its token"},
        {FIRST " " SECOND "\n", 0600, ":1: has an unknown scope after its token"},
        {FIRST " read,votes\n", 0600, "expected votes, read, operate or tasks:GROUP"},
        {FIRST " tasks:\n", 0600, ":1: has a scope tasks:GROUP whose group is not 1 to 64"},
        {FIRST " tasks:a/b\n", 0600, ":1: has a scope tasks:GROUP whose group is not 1 to 64"},
        {FIRST " tasks:a tasks:b tasks:c tasks:d tasks:e tasks:f tasks:g tasks:h tasks:i tasks:j "
               "tasks:k tasks:l tasks:m tasks:n tasks:o tasks:p tasks:q\n",
         0600, ":1: has too many scopes tasks:GROUP; expected 16 at most"},
    };
    struct http_tokens tokens = {.count = 7};
    struct err err = {0};
    char zero[] = FIRST "\nsecond\0token-0123456789\n";
    char *large = calloc(1, 70000);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        file_write(cases[i].text, strlen(cases[i].text), cases[i].mode);
        assert_int_equal(http_tokens_read(&tokens, path, &err), RC_REJECT);
        assert_non_null(strstr(err.text, path));
        assert_non_null(strstr(err.text, cases[i].said));
        assert_null(strstr(err.text, "token-"));
        assert_int_equal(tokens.count, 7);
    }
    file_write(zero, sizeof(zero) - 1, 0600);
    assert_int_equal(http_tokens_read(&tokens, path, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "zero byte"));
    assert_non_null(large);
    memset(large, 'a', 70000);
    file_write(large, 70000, 0600);
    free(large);
    assert_int_equal(http_tokens_read(&tokens, path, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "longer than"));
    assert_int_equal(http_tokens_read(&tokens, "/nowhere/x", &err), RC_REJECT);
    assert_non_null(strstr(err.text, "cannot open /nowhere/x: No such file"));
    assert_int_equal(http_tokens_read(&tokens, "/tmp", &err), RC_REJECT);
    assert_non_null(strstr(err.text, "/tmp: it is a folder"));
}

static struct http_scopes scopes_of(const char *line)
{
    struct http_tokens tokens = {0};
    struct http_scopes scopes;
    struct err err = {0};
    char text[512];
    int len = snprintf(text, sizeof(text), SECOND " operate\n%s\n", line);

    file_write(text, (size_t)len, 0600);
    if (http_tokens_read(&tokens, path, &err) != RC_OK)
        fail_msg("%s", err.text);
    assert_true(http_tokens_allow(&tokens, "Bearer " FIRST, &scopes));
    return scopes;
}

static void a_token_has_the_scopes_of_its_line(void **state)
{
    struct http_scopes scopes = scopes_of(FIRST);

    (void)state;
    assert_int_equal(scopes.bits, HTTP_SCOPE_VOTES | HTTP_SCOPE_READ);
    assert_int_equal(scopes.group_count, 0);
    scopes = scopes_of(FIRST " \t\r");
    assert_int_equal(scopes.bits, HTTP_SCOPE_VOTES | HTTP_SCOPE_READ);
    scopes = scopes_of(FIRST "  read\t");
    assert_int_equal(scopes.bits, HTTP_SCOPE_READ);
    assert_true(http_scopes_have(&scopes, HTTP_SCOPE_READ));
    assert_false(http_scopes_have(&scopes, HTTP_SCOPE_VOTES));
    scopes = scopes_of(FIRST "\toperate votes\r");
    assert_int_equal(scopes.bits, HTTP_SCOPE_VOTES | HTTP_SCOPE_OPERATE);
    /* A token for tasks may neither vote nor read. */
    scopes = scopes_of(FIRST " tasks:shop tasks:mail.out tasks:shop");
    assert_int_equal(scopes.bits, 0);
    assert_int_equal(scopes.group_count, 2);
    assert_true(http_scopes_have_group(&scopes, "shop"));
    assert_true(http_scopes_have_group(&scopes, "mail.out"));
    assert_false(http_scopes_have_group(&scopes, "sho"));
    assert_false(http_scopes_have_group(&scopes, "shops"));
    assert_false(http_scopes_have_group(&scopes, ""));
}

static void one_token_too_many_is_reported(void **state)
{
    char text[(HTTP_TOKENS_MAX + 1) * 32 + 1] = "";
    struct http_tokens tokens = {0};
    struct http_scopes scopes;
    struct err err = {0};
    size_t len = 0;

    (void)state;
    for (int i = 0; i <= HTTP_TOKENS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "token-number-%017d\n", i);
    file_write(text, len - 31, 0600);
    assert_int_equal(http_tokens_read(&tokens, path, &err), RC_OK);
    assert_int_equal(tokens.count, HTTP_TOKENS_MAX);
    assert_true(http_tokens_allow(&tokens, "Bearer token-number-00000000000000063", &scopes));
    file_write(text, len, 0600);
    assert_int_equal(http_tokens_read(&tokens, path, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "has too many tokens"));
}

static enum rc pick(const char *text, enum http_scope scope, struct buf *token, struct err *err)
{
    file_write(text, strlen(text), 0600);
    buf_text_put(token, "Bearer ");
    return http_tokens_pick(token, path, scope, err);
}

static void a_token_is_picked_by_its_scope(void **state)
{
    static const char *const texts[] = {
        FIRST " votes\n" SECOND " operate\n",
        "# " FIRST " operate\r\n\r\n\n" FIRST "\r\n" SECOND "\tread operate\r\n",
        SECOND " operate\n" FIRST " operate",
    };
    struct buf token = {0};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        buf_reset(&token);
        if (pick(texts[i], HTTP_SCOPE_OPERATE, &token, &err) != RC_OK)
            fail_msg("%s", err.text);
        assert_string_equal(buf_text(&token), "Bearer " SECOND);
    }
    buf_done(&token);
}

static void a_file_without_the_scope_gives_no_token(void **state)
{
    struct buf token = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(pick(FIRST "\n", HTTP_SCOPE_OPERATE, &token, &err), RC_REJECT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, ": no token has the scope operate"));
    assert_int_equal(pick(FIRST " operate\nshort operate\n", HTTP_SCOPE_OPERATE, &token, &err),
                     RC_REJECT);
    assert_non_null(strstr(err.text, ":2: has a token of 5 characters"));
    assert_null(strstr(err.text, FIRST));
    assert_string_equal(buf_text(&token), "Bearer Bearer ");
    buf_done(&token);
}

/* A child that stops, looks for the digest, and stops again. */
static void child_run(const struct http_tokens *tokens, const unsigned char *digest)
{
    size_t place;
    bool found;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    raise(SIGSTOP);
    found = http_tokens_match(tokens, digest, &place);
    raise(SIGSTOP);
    _exit(found);
}

/* How many instructions the child takes from its one stop to the other; -1 where a process may not
 * be traced. *found: its result. */
static long steps_of(const struct http_tokens *tokens, const unsigned char *digest, bool *found)
{
    pid_t pid = fork();
    long steps = 0;
    int status = 0;

    assert_true(pid >= 0);
    if (pid == 0)
        child_run(tokens, digest);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return -1;
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    do {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        steps++;
    } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    *found = WEXITSTATUS(status) != 0;
    return steps;
}

/* Counted, not timed: the processor's instructions are the same number wherever the digests begin
 * to differ and whichever token it is. */
static void a_look_takes_as_many_steps_for_every_token(void **state)
{
    struct http_tokens tokens = {.count = 5};
    unsigned char digest[HTTP_TOKEN_DIGEST_SIZE];
    bool found = false;
    long steps;

    (void)state;
    if (!STEPS_COUNT)
        skip();
    for (size_t i = 0; i < tokens.count; i++)
        memset(tokens.digests[i], (int)(0x11 * (i + 1)), HTTP_TOKEN_DIGEST_SIZE);
    memset(digest, 0, sizeof(digest));
    steps = steps_of(&tokens, digest, &found);
    if (steps < 0)
        skip();
    assert_false(found);
    assert_true(steps > HTTP_TOKEN_DIGEST_SIZE);
    for (size_t i = 0; i < tokens.count; i++) {
        memcpy(digest, tokens.digests[i], sizeof(digest));
        assert_int_equal(steps_of(&tokens, digest, &found), steps);
        assert_true(found);
        digest[i * 7] ^= 0x80;
        assert_int_equal(steps_of(&tokens, digest, &found), steps);
        assert_false(found);
    }
    memset(digest, 0xFF, sizeof(digest));
    assert_int_equal(steps_of(&tokens, digest, &found), steps);
    assert_false(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_line_is_a_token),
        cmocka_unit_test(a_token_has_the_scopes_of_its_line),
        cmocka_unit_test(a_bad_file_is_named_and_its_tokens_are_not),
        cmocka_unit_test(a_token_is_picked_by_its_scope),
        cmocka_unit_test(a_file_without_the_scope_gives_no_token),
        cmocka_unit_test(one_token_too_many_is_reported),
        cmocka_unit_test(a_look_takes_as_many_steps_for_every_token),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
