/* SPDX-License-Identifier: MIT */
#include "common/db/login.h"

#include "common/config/secret_file.h"
#include "common/db/error.h"
#include "common/hash.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

/* [mysql] and [sink], and a few more in tests. */
#define ACCOUNTS_MAX 8

/* An account that the server refuses. */
struct refusal {
    uint64_t account; /* hash of server and user; 0: none */
    int64_t since_ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct refusal refusals[ACCOUNTS_MAX];
static bool waits;
static bool failed;
static struct err last_refusal; /* Invariant: set when failed is */

void login_read_password(const struct mysql_settings *settings, char password[SETTING_TEXT_SIZE],
                         struct err *fault)
{
    *fault = (struct err){0};
    memcpy(password, settings->password, SETTING_TEXT_SIZE);
    if (settings->password_file[0])
        secret_file_read_line(settings->password_file, password, SETTING_TEXT_SIZE, fault);
}

static uint64_t hash_account(const struct mysql_settings *settings, const char *place)
{
    uint64_t hash = hash_bytes(HASH_START, place, strlen(place) + 1);

    hash = hash_bytes(hash, settings->user, strlen(settings->user));
    return hash > 0 ? hash : 1;
}

static void forget_refusal(uint64_t account)
{
    for (size_t i = 0; i < ACCOUNTS_MAX; i++)
        if (refusals[i].account == account)
            refusals[i] = (struct refusal){0};
}

/* Returns since when the account has been refused. The oldest entry makes room for a new one. */
static int64_t add_refusal(uint64_t account, int64_t now_ms)
{
    struct refusal *place = &refusals[0];

    for (size_t i = 0; i < ACCOUNTS_MAX; i++) {
        if (refusals[i].account == account)
            return refusals[i].since_ms;
        if (place->account != 0 &&
            (refusals[i].account == 0 || refusals[i].since_ms < place->since_ms))
            place = &refusals[i];
    }
    *place = (struct refusal){account, now_ms};
    return now_ms;
}

enum rc login_take_result(const struct mysql_settings *settings, const char *place, int64_t now_ms,
                          enum rc rc, const struct err *fault, struct err *err)
{
    bool refused =
        rc != RC_OK && (err->code == DB_ACCESS_DENIED || err->code == DB_ACCESS_DENIED_NO_PASSWORD);
    uint64_t account = hash_account(settings, place);
    int64_t lasts_ms;

    if (rc != RC_OK && !refused)
        return rc;
    if (refused && fault->text[0])
        err_fail(err, rc, err->code, "%s; %s", err->text, fault->text);
    pthread_mutex_lock(&lock);
    if (!refused) {
        forget_refusal(account);
    } else if (waits) {
        lasts_ms = now_ms - add_refusal(account, now_ms);
        err_fail(err, rc, err->code,
                 "%s; correct the password: the process ends when logins fail for auth_wait_ms = "
                 "%" PRId64,
                 err->text, settings->auth_wait_ms);
        rc = RC_RETRY;
        if (lasts_ms >= settings->auth_wait_ms && !failed) {
            failed = true;
            last_refusal = *err;
        }
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void login_wait_begin(void)
{
    pthread_mutex_lock(&lock);
    waits = true;
    pthread_mutex_unlock(&lock);
}

bool login_has_failed(struct err *err)
{
    bool has_failed;

    pthread_mutex_lock(&lock);
    has_failed = failed;
    if (has_failed)
        *err = last_refusal;
    pthread_mutex_unlock(&lock);
    return has_failed;
}

void login_reset(void)
{
    pthread_mutex_lock(&lock);
    memset(refusals, 0, sizeof(refusals));
    waits = failed = false;
    pthread_mutex_unlock(&lock);
}
