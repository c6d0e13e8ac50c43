/* SPDX-License-Identifier: MIT */
/* How connections log in: with the password that its file holds at that moment, and how long a
 * process waits for an account whose login the server refuses. A refused login is normal while a
 * password is changed, because the server and the file cannot change at once. Any thread. */
#ifndef COMMON_DB_LOGIN_H
#define COMMON_DB_LOGIN_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Fills password with the line that password_file holds now, or with settings->password if no file
 * is set. fault is empty unless the file cannot be read: password is then the one of the start. */
void login_read_password(const struct mysql_settings *settings, char password[SETTING_TEXT_SIZE],
                         struct err *fault);

/* Call after each connection attempt: rc and err are its result, place names the server. Returns rc
 * for everything but a refused login. That is RC_RETRY in a process that waits, and err names the
 * setting; in other processes rc is unchanged. fault is appended to the text of a refusal unless it
 * is empty. */
enum rc login_take_result(const struct mysql_settings *settings, const char *place, int64_t now_ms,
                          enum rc rc, const struct err *fault, struct err *err);

/* From now on this process waits for refused logins, each account for its auth_wait_ms. */
void login_wait_begin(void);

/* Returns true, with the last refusal in err, when an account was refused at two attempts that are
 * auth_wait_ms or more apart and at all attempts between them: the process must end. */
bool login_has_failed(struct err *err);

/* Forgets all of this; for tests. */
void login_reset(void);

#endif
