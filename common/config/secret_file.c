/* SPDX-License-Identifier: MIT */
#include "common/config/secret_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_open_mode(const struct stat *is)
{
    return (is->st_mode & (S_IROTH | S_IWOTH)) != 0;
}

static enum rc check_file(int fd, const char *path, bool secret, struct err *err)
{
    struct stat is;

    if (fstat(fd, &is) != 0)
        return err_fail(err, RC_REJECT, errno, "cannot read %.200s: %s", path, strerror(errno));
    if (S_ISDIR(is.st_mode))
        return err_fail(err, RC_REJECT, 0, "cannot read %.200s: it is a folder", path);
    if (secret && is_open_mode(&is))
        return err_fail(err, RC_REJECT, 0,
                        "%.200s is open to every account of this machine (mode %03o); run chmod "
                        "o= on it",
                        path, (unsigned)(is.st_mode & 0777));
    return RC_OK;
}

static enum rc read_all(int fd, struct buf *text, const char *path, struct err *err)
{
    /* Reserved at once, because growing would leave a part of the secret in freed memory. */
    char *room = buf_reserve(text, SECRET_FILE_BYTES_MAX + 1);
    ssize_t got = 1;

    if (!room)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    while (got > 0 && text->len <= SECRET_FILE_BYTES_MAX) {
        got = read(fd, text->data + text->len, SECRET_FILE_BYTES_MAX + 1 - text->len);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            return err_fail(err, RC_REJECT, errno, "cannot read %.200s: %s", path, strerror(errno));
        else
            text->len += (size_t)got;
    }
    if (text->len > SECRET_FILE_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "%.200s is longer than %d bytes", path,
                        SECRET_FILE_BYTES_MAX);
    if (memchr(text->data, '\0', text->len))
        return err_fail(err, RC_REJECT, 0, "%.200s has a zero byte in it; expected text", path);
    return RC_OK;
}

static enum rc read_file(struct buf *text, const char *path, bool secret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum rc rc;

    if (fd < 0)
        return err_fail(err, RC_REJECT, errno, "cannot open %.200s: %s", path, strerror(errno));
    rc = check_file(fd, path, secret, err);
    if (rc == RC_OK)
        rc = read_all(fd, text, path, err);
    close(fd);
    if (rc != RC_OK)
        secret_file_forget(text);
    return rc;
}

enum rc secret_file_read(struct buf *text, const char *path, struct err *err)
{
    return read_file(text, path, true, err);
}

enum rc secret_file_read_public(struct buf *text, const char *path, struct err *err)
{
    return read_file(text, path, false, err);
}

bool secret_file_is_open(const char *path, unsigned *mode)
{
    struct stat is;

    if (stat(path, &is) != 0 || !is_open_mode(&is))
        return false;
    *mode = (unsigned)(is.st_mode & 0777);
    return true;
}

void secret_file_forget(struct buf *text)
{
    if (text->data)
        OPENSSL_cleanse(text->data, text->size);
    buf_done(text);
}

/* The file is read with two bytes more than a line may have: its end, and one that shows that it is
 * too long. */
enum rc secret_file_read_line(const char *path, char *line, size_t size, struct err *err)
{
    char text[SECRET_FILE_LINE_SIZE + 2];
    FILE *file = fopen(path, "r");
    size_t len;
    bool unread;
    enum rc rc = RC_OK;

    assert(size <= SECRET_FILE_LINE_SIZE);
    if (!file)
        return err_fail(err, RC_FATAL, errno, "cannot open %.160s: %s", path, strerror(errno));
    len = fread(text, 1, size + 2, file);
    unread = ferror(file) != 0;
    fclose(file);
    if (unread)
        return err_fail(err, RC_FATAL, 0, "cannot read %.160s; is it a file?", path);
    if (len > 0 && len < size + 2 && text[len - 1] == '\n')
        len--;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    if (len == 0)
        rc = err_fail(err, RC_FATAL, 0, "%.160s is empty", path);
    else if (memchr(text, '\n', len) || memchr(text, '\0', len))
        rc = err_fail(err, RC_FATAL, 0, "%.160s holds more than one line of text", path);
    else if (len >= size)
        rc = err_fail(err, RC_FATAL, 0,
                      "%.160s is too long; expected a password of %zu bytes at most", path,
                      size - 1);
    if (rc == RC_OK) {
        memcpy(line, text, len);
        line[len] = '\0';
    }
    OPENSSL_cleanse(text, sizeof(text));
    return rc;
}
