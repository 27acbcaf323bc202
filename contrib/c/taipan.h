/* A CGI program, made persistent by one line.
 *
 *     #include "taipan.h"
 *
 *     int main(void)
 *     {
 *         while (taipan_accept())
 *             printf("Content-Type: text/plain\r\n\r\nHello, %s!\n", getenv("REMOTE_ADDR"));
 *     }
 *
 * Started by a web server with a listening socket as descriptor 0, the program serves one request
 * after the other by FastCGI. Started in any other way it runs its body once, as a CGI program.
 *
 * In a request, getenv() has its variables, stdin its body, stdout its response and stderr the
 * server's log. The next request invalidates strings from getenv(). Descriptors 0, 1 and 2 do not
 * belong to the request: write() to them and the output of child processes do not reach the client.
 *
 * Include it first, in the one file that has main(). Linux; any C since C99, or C++. No dependency.
 * One request at a time: for more at a time, let the server start more processes.
 */
#ifndef TAIPAN_H
#define TAIPAN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include taipan.h before every other header"
#endif

/* Waits for the next request. 0: there are no more, and the program should end. */
static int taipan_accept(void);

/* Whether the client has left the current request, so that output fails. Does not wait. */
static int taipan_aborted(void);

/* ---- Everything below is private. ---- */

enum {
    TAIPAN_BEGIN = 1, TAIPAN_ABORT = 2, TAIPAN_END = 3, TAIPAN_PARAMS = 4, TAIPAN_STDIN = 5,
    TAIPAN_STDOUT = 6, TAIPAN_STDERR = 7, TAIPAN_GET_VALUES = 9, TAIPAN_VALUES = 10, TAIPAN_UNKNOWN = 11,
    TAIPAN_RESPONDER = 1, TAIPAN_AUTHORIZER = 2,
    TAIPAN_COMPLETE = 0, TAIPAN_CANNOT_MULTIPLEX = 1, TAIPAN_UNKNOWN_ROLE = 3,
    TAIPAN_HEADER = 8,
    TAIPAN_IDLE_CONNECTIONS = 16,
    TAIPAN_MAX_PARAMS = 1 << 20
};

enum taipan_mode { TAIPAN_NOT_STARTED, TAIPAN_CGI, TAIPAN_OVER, TAIPAN_FASTCGI };

/* The part of the request that is expected next. */
enum taipan_phase { TAIPAN_NONE, TAIPAN_NAMES, TAIPAN_BODY, TAIPAN_ANSWER };

static struct {
    enum taipan_mode mode;
    enum taipan_phase phase;
    pid_t pid;
    int listener;
    /* Idle kept connections, and the one with the current request, or -1. */
    int idle[TAIPAN_IDLE_CONNECTIONS];
    int idle_count;
    int connection;
    /* State of the request. */
    int keep, aborted, finishing;
    unsigned id, role;
    /* The connection is unusable. */
    int broken;
    /* Received bytes, and how much of the current record is missing. */
    size_t in_start, in_end, content, padding;
    size_t out_len;
    char *params;
    size_t params_len, params_size;
    char **base_environment, **environment;
    size_t environment_size;
    FILE *files[3];
    unsigned char in[32768];
    unsigned char out[65536];
    char stdin_buffer[16384], stdout_buffer[32768], stderr_buffer[1024];
} taipan;

/* ---- Bytes out. */

static void taipan_send(const unsigned char *bytes, size_t len)
{
    while (len > 0 && !taipan.broken) {
        ssize_t sent = send(taipan.connection, bytes, len, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes += sent;
            len -= (size_t)sent;
        } else if (errno != EINTR) {
            taipan.broken = 1;
        }
    }
}

static void taipan_flush(void)
{
    taipan_send(taipan.out, taipan.out_len);
    taipan.out_len = 0;
}

/* Appends one record; len fits the record and the buffer. */
static void taipan_record(int type, unsigned id, const void *content, size_t len)
{
    unsigned char *to;
    if (taipan.out_len + TAIPAN_HEADER + len > sizeof taipan.out)
        taipan_flush();
    to = taipan.out + taipan.out_len;
    to[0] = 1;
    to[1] = (unsigned char)type;
    to[2] = (unsigned char)(id >> 8);
    to[3] = (unsigned char)id;
    to[4] = (unsigned char)(len >> 8);
    to[5] = (unsigned char)len;
    to[6] = to[7] = 0;
    if (len > 0)
        memcpy(to + TAIPAN_HEADER, content, len);
    taipan.out_len += TAIPAN_HEADER + len;
}

static void taipan_end_request(unsigned id, unsigned exit_status, int ending)
{
    unsigned char body[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    body[0] = (unsigned char)(exit_status >> 24);
    body[1] = (unsigned char)(exit_status >> 16);
    body[2] = (unsigned char)(exit_status >> 8);
    body[3] = (unsigned char)exit_status;
    body[4] = (unsigned char)ending;
    taipan_record(TAIPAN_END, id, body, sizeof body);
}

/* ---- Bytes in. */

/* Whether the buffer has at least one byte; reads if it is empty. */
static int taipan_fill(void)
{
    ssize_t got;
    if (taipan.in_start < taipan.in_end)
        return 1;
    if (taipan.broken)
        return 0;
    do
        got = recv(taipan.connection, taipan.in, sizeof taipan.in, 0);
    while (got < 0 && errno == EINTR);
    taipan.in_start = 0;
    taipan.in_end = got > 0 ? (size_t)got : 0;
    taipan.broken = got <= 0;
    return !taipan.broken;
}

/* Takes exactly len bytes; discards them if to is NULL. */
static int taipan_take(void *to, size_t len)
{
    unsigned char *at = (unsigned char *)to;
    while (len > 0) {
        size_t have;
        if (!taipan_fill())
            return 0;
        have = taipan.in_end - taipan.in_start;
        if (have > len)
            have = len;
        if (at != NULL) {
            memcpy(at, taipan.in + taipan.in_start, have);
            at += have;
        }
        taipan.in_start += have;
        len -= have;
    }
    return 1;
}

static int taipan_take_content(void *to, size_t len)
{
    taipan.content -= len;
    return taipan_take(to, len);
}

static void taipan_close(void);

/* Ends a request that the program does not see. */
static void taipan_refuse(unsigned id, int ending)
{
    taipan_end_request(id, 0, ending);
    taipan_flush();
    taipan.phase = TAIPAN_NONE;
    if (!taipan.keep)
        taipan_close();
}

static void taipan_begin(unsigned id)
{
    unsigned char body[8];
    unsigned role;
    if (taipan.content != sizeof body || (taipan.phase != TAIPAN_NONE && id == taipan.id)) {
        taipan.broken = 1;
        return;
    }
    if (!taipan_take_content(body, sizeof body))
        return;
    role = (unsigned)body[0] << 8 | body[1];
    if (taipan.phase != TAIPAN_NONE) {
        taipan_end_request(id, 0, TAIPAN_CANNOT_MULTIPLEX);
        taipan_flush();
        return;
    }
    taipan.keep = body[2] & 1;
    if (role != TAIPAN_RESPONDER && role != TAIPAN_AUTHORIZER) {
        taipan_refuse(id, TAIPAN_UNKNOWN_ROLE);
        return;
    }
    taipan.id = id;
    taipan.role = role;
    taipan.aborted = 0;
    taipan.params_len = 0;
    taipan.phase = TAIPAN_NAMES;
}

static void taipan_names(void)
{
    size_t len = taipan.content;
    if (len == 0) {
        /* An authorizer has no body, and no record that ends it. */
        taipan.phase = taipan.role == TAIPAN_RESPONDER ? TAIPAN_BODY : TAIPAN_ANSWER;
        return;
    }
    if (taipan.params_len + len > taipan.params_size) {
        size_t size = 2 * (taipan.params_len + len);
        char *larger = size > TAIPAN_MAX_PARAMS ? NULL : (char *)realloc(taipan.params, size);
        if (larger == NULL) {
            taipan.broken = 1;
            return;
        }
        taipan.params = larger;
        taipan.params_size = size;
    }
    taipan_take_content(taipan.params + taipan.params_len, len);
    taipan.params_len += len;
}

static void taipan_values(void)
{
    static const char *const known[3][2] = {
        {"FCGI_MAX_CONNS", "1"}, {"FCGI_MAX_REQS", "1"}, {"FCGI_MPXS_CONNS", "0"}
    };
    unsigned char question[1024], answer[128];
    size_t len = taipan.content, at = 0, answered = 0, i;
    if (len > sizeof question) {
        taipan.broken = 1;
        return;
    }
    if (!taipan_take_content(question, len))
        return;
    /* The known names are short, so every length takes one byte. */
    while (at + 2 <= len && question[at] < 128 && question[at + 1] < 128) {
        size_t name_len = question[at], value_len = question[at + 1];
        if (at + 2 + name_len + value_len > len)
            break;
        for (i = 0; i < 3; i++) {
            if (name_len == strlen(known[i][0]) && memcmp(question + at + 2, known[i][0], name_len) == 0 &&
                answered + 3 + name_len <= sizeof answer) {
                answer[answered++] = (unsigned char)name_len;
                answer[answered++] = 1;
                memcpy(answer + answered, known[i][0], name_len);
                answered += name_len;
                answer[answered++] = (unsigned char)known[i][1][0];
            }
        }
        at += 2 + name_len + value_len;
    }
    taipan_record(TAIPAN_VALUES, 0, answer, answered);
    taipan_flush();
}

/* Reads the next record. The content of a body record is left in the buffer. */
static void taipan_next_record(void)
{
    unsigned char header[TAIPAN_HEADER];
    unsigned id;
    int ours;
    if (!taipan_take(NULL, taipan.content + taipan.padding) || !taipan_take(header, sizeof header)) {
        taipan.broken = 1;
        return;
    }
    id = (unsigned)header[2] << 8 | header[3];
    taipan.content = (size_t)header[4] << 8 | header[5];
    taipan.padding = header[6];
    ours = taipan.phase != TAIPAN_NONE && id == taipan.id;
    if (header[0] != 1) {
        taipan.broken = 1;
    } else if (id == 0 && header[1] == TAIPAN_GET_VALUES) {
        taipan_values();
    } else if (id == 0) {
        unsigned char body[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        body[0] = header[1];
        taipan_take_content(NULL, taipan.content);
        taipan_record(TAIPAN_UNKNOWN, 0, body, sizeof body);
        taipan_flush();
    } else if (header[1] == TAIPAN_BEGIN) {
        taipan_begin(id);
    } else if (ours && header[1] == TAIPAN_ABORT) {
        taipan.aborted = 1;
        if (taipan.phase == TAIPAN_NAMES) {
            taipan_refuse(id, TAIPAN_COMPLETE);
        } else {
            taipan.phase = TAIPAN_ANSWER;
        }
    } else if (ours && header[1] == TAIPAN_PARAMS && taipan.phase == TAIPAN_NAMES) {
        taipan_names();
    } else if (ours && header[1] == TAIPAN_STDIN && taipan.phase == TAIPAN_BODY && taipan.content == 0) {
        taipan.phase = TAIPAN_ANSWER;
    } else if (!ours || header[1] != TAIPAN_STDIN || taipan.phase != TAIPAN_BODY) {
        /* A record of an ended request: skipped, so that it is not read as a body. */
        taipan_take_content(NULL, taipan.content);
    }
}

/* ---- The streams of the program. */

static ssize_t taipan_read_body(void *cookie, char *to, size_t size)
{
    (void)cookie;
    while (taipan.phase == TAIPAN_BODY && taipan.content == 0 && !taipan.broken)
        taipan_next_record();
    if (taipan.phase != TAIPAN_BODY || taipan.broken || !taipan_fill())
        return 0;
    if (size > taipan.content)
        size = taipan.content;
    if (size > taipan.in_end - taipan.in_start)
        size = taipan.in_end - taipan.in_start;
    return taipan_take_content(to, size) ? (ssize_t)size : 0;
}

static ssize_t taipan_write(int type, const char *bytes, size_t size)
{
    size_t at = 0;
    while (at < size) {
        size_t len = size - at;
        if (len > sizeof taipan.out - TAIPAN_HEADER)
            len = sizeof taipan.out - TAIPAN_HEADER;
        if (taipan.phase == TAIPAN_NONE || taipan.broken || taipan.aborted ||
            (!taipan.finishing && taipan_aborted())) {
            errno = EPIPE;
            return 0;
        }
        taipan_record(type, taipan.id, bytes + at, len);
        at += len;
    }
    /* The last output is sent together with the end of the request. */
    if (!taipan.finishing)
        taipan_flush();
    return (ssize_t)size;
}

static ssize_t taipan_write_answer(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    return taipan_write(TAIPAN_STDOUT, bytes, size);
}

static ssize_t taipan_write_log(void *cookie, const char *bytes, size_t size)
{
    (void)cookie;
    return taipan_write(TAIPAN_STDERR, bytes, size);
}

static int taipan_aborted(void)
{
    struct pollfd waiting;
    if (taipan.mode != TAIPAN_FASTCGI)
        return 0;
    /* An abort after an unread body record is not detected. */
    while (taipan.phase >= TAIPAN_BODY && taipan.content == 0 && !taipan.aborted && !taipan.broken) {
        waiting.fd = taipan.connection;
        waiting.events = POLLIN;
        if (taipan.in_start == taipan.in_end && poll(&waiting, 1, 0) <= 0)
            break;
        taipan_next_record();
    }
    return taipan.aborted || taipan.broken;
}

#if defined(__GLIBC__) && !defined(TAIPAN_MACROS)
#define TAIPAN_REPLACE() (stdin = taipan.files[0], stdout = taipan.files[1], stderr = taipan.files[2])
#else
/* If the three cannot be assigned to, macros below redefine their names. */
#define TAIPAN_REPLACE() ((void)0)
#endif

static int taipan_open_streams(void)
{
    cookie_io_functions_t in = {taipan_read_body, NULL, NULL, NULL};
    cookie_io_functions_t out = {NULL, taipan_write_answer, NULL, NULL};
    cookie_io_functions_t log = {NULL, taipan_write_log, NULL, NULL};
    taipan.files[0] = fopencookie(NULL, "r", in);
    taipan.files[1] = fopencookie(NULL, "w", out);
    taipan.files[2] = fopencookie(NULL, "w", log);
    if (taipan.files[0] == NULL || taipan.files[1] == NULL || taipan.files[2] == NULL)
        return 0;
    setvbuf(taipan.files[0], taipan.stdin_buffer, _IOFBF, sizeof taipan.stdin_buffer);
    setvbuf(taipan.files[1], taipan.stdout_buffer, _IOFBF, sizeof taipan.stdout_buffer);
    setvbuf(taipan.files[2], taipan.stderr_buffer, _IOLBF, sizeof taipan.stderr_buffer);
    TAIPAN_REPLACE();
    return 1;
}

/* ---- The environment. */

/* Reads the length at *at and moves behind it; returns more than possible if it is cut. */
static size_t taipan_length(size_t *at)
{
    const unsigned char *bytes = (const unsigned char *)taipan.params;
    size_t left = taipan.params_len - *at;
    if (left >= 1 && bytes[*at] < 128)
        return bytes[(*at)++];
    if (left < 4)
        return TAIPAN_MAX_PARAMS;
    *at += 4;
    return (size_t)(bytes[*at - 4] & 127) << 24 | (size_t)bytes[*at - 3] << 16 | (size_t)bytes[*at - 2] << 8 |
           bytes[*at - 1];
}

static int taipan_same_name(const char *one, const char *other)
{
    size_t len = strcspn(one, "=");
    return strncmp(one, other, len) == 0 && other[len] == '=';
}

static int taipan_add_variable(size_t *count, char *variable)
{
    if (*count + 2 > taipan.environment_size) {
        size_t size = 2 * taipan.environment_size + 64;
        char **larger = (char **)realloc(taipan.environment, size * sizeof *larger);
        if (larger == NULL)
            return 0;
        taipan.environment = larger;
        taipan.environment_size = size;
    }
    taipan.environment[(*count)++] = variable;
    taipan.environment[*count] = NULL;
    return 1;
}

/* Rewrites pairs to NAME=VALUE in place: two lengths take at least as many bytes as '=' and NUL. */
static int taipan_set_environment(void)
{
    size_t at = 0, count = 0, given, i;
    char **base;
    while (at < taipan.params_len) {
        char *variable = taipan.params + at;
        size_t name_len = taipan_length(&at), value_len = taipan_length(&at);
        if (name_len > taipan.params_len - at || value_len > taipan.params_len - at - name_len)
            return 0;
        memmove(variable, taipan.params + at, name_len);
        variable[name_len] = '=';
        memmove(variable + name_len + 1, taipan.params + at + name_len, value_len);
        variable[name_len + 1 + value_len] = '\0';
        at += name_len + value_len;
        /* The Proxy field of a client must not become HTTP_PROXY (httpoxy). */
        if (!taipan_same_name("HTTP_PROXY=", variable) && !taipan_add_variable(&count, variable))
            return 0;
    }
    given = count;
    for (base = taipan.base_environment; base != NULL && *base != NULL; base++) {
        for (i = 0; i < given && !taipan_same_name(*base, taipan.environment[i]); i++)
            ;
        if (i == given && !taipan_add_variable(&count, *base))
            return 0;
    }
    environ = count > 0 ? taipan.environment : taipan.base_environment;
    return 1;
}

/* ---- Requests. */

static void taipan_close(void)
{
    struct pollfd waiting;
    int turns;
    if (taipan.connection < 0)
        return;
    waiting.fd = taipan.connection;
    waiting.events = POLLIN;
    /* Closing with unread bytes sends RST, which may destroy the last output. At most two seconds. */
    if (!taipan.broken && shutdown(taipan.connection, SHUT_WR) == 0) {
        for (turns = 0; turns < 256 && poll(&waiting, 1, 2000) > 0; turns++)
            if (recv(taipan.connection, taipan.in, sizeof taipan.in, 0) <= 0)
                break;
    }
    close(taipan.connection);
    taipan.connection = -1;
    taipan.phase = TAIPAN_NONE;
    taipan.in_start = taipan.in_end = taipan.content = taipan.padding = taipan.out_len = 0;
}

static void taipan_finish(unsigned exit_status)
{
    if (taipan.phase == TAIPAN_NONE)
        return;
    taipan.finishing = 1;
    fflush(taipan.files[1]);
    fflush(taipan.files[2]);
    taipan.finishing = 0;
    taipan_record(TAIPAN_STDOUT, taipan.id, NULL, 0);
    taipan_end_request(taipan.id, exit_status, TAIPAN_COMPLETE);
    taipan_flush();
    taipan.phase = TAIPAN_NONE;
    if (!taipan.keep || taipan.broken)
        taipan_close();
}

/* A child of the program that exits must not end the request. */
#ifdef __GLIBC__
static void taipan_exit(int status, void *nothing)
{
    (void)nothing;
    if (getpid() == taipan.pid) {
        taipan.keep = 0;
        taipan_finish((unsigned)status);
    }
}
#else
static void taipan_exit(void)
{
    if (getpid() == taipan.pid) {
        taipan.keep = 0;
        taipan_finish(0);
    }
}
#endif

static enum taipan_mode taipan_start(void)
{
    int listens = 0, nothing;
    socklen_t size = sizeof listens;
    if (getsockopt(0, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        return TAIPAN_CGI;
    /* Moved away, so that child processes do not inherit the socket. */
    taipan.listener = fcntl(0, F_DUPFD_CLOEXEC, 3);
    nothing = open("/dev/null", O_RDONLY);
    if (taipan.listener < 0 || nothing < 0 || dup2(nothing, 0) < 0)
        return TAIPAN_OVER;
    if (nothing != 0)
        close(nothing);
    /* Another process may have accepted the connection that woke this one. */
    fcntl(taipan.listener, F_SETFL, fcntl(taipan.listener, F_GETFL) | O_NONBLOCK);
    taipan.connection = -1;
    taipan.base_environment = environ;
    taipan.pid = getpid();
#ifdef __GLIBC__
    on_exit(taipan_exit, NULL);
#else
    atexit(taipan_exit);
#endif
    return taipan_open_streams() ? TAIPAN_FASTCGI : TAIPAN_OVER;
}

/* Waits until a connection is readable. */
static int taipan_wait(void)
{
    struct pollfd waiting[TAIPAN_IDLE_CONNECTIONS + 1];
    for (;;) {
        int i, accepts = taipan.idle_count < TAIPAN_IDLE_CONNECTIONS;
        for (i = 0; i < taipan.idle_count; i++) {
            waiting[i].fd = taipan.idle[i];
            waiting[i].events = POLLIN;
        }
        waiting[i].fd = taipan.listener;
        waiting[i].events = POLLIN;
        if (poll(waiting, (nfds_t)(i + accepts), -1) < 0) {
            if (errno == EINTR)
                continue;
            return 0;
        }
        for (i = 0; i < taipan.idle_count; i++) {
            if (waiting[i].revents != 0) {
                taipan.connection = taipan.idle[i];
                /* In the order of arrival, so that none waits forever. */
                memmove(taipan.idle + i, taipan.idle + i + 1,
                        (size_t)(--taipan.idle_count - i) * sizeof taipan.idle[0]);
                return 1;
            }
        }
        /* A new connection waits like the others, because its first bytes may come late. */
        i = accept4(taipan.listener, NULL, NULL, SOCK_CLOEXEC);
        if (i >= 0)
            taipan.idle[taipan.idle_count++] = i;
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            return 0;
    }
}

static int taipan_accept(void)
{
    int i;
    if (taipan.mode == TAIPAN_NOT_STARTED) {
        taipan.mode = taipan_start();
        if (taipan.mode == TAIPAN_CGI)
            return 1;
    }
    if (taipan.mode != TAIPAN_FASTCGI) {
        taipan.mode = TAIPAN_OVER;
        return 0;
    }
    taipan_finish(0);
    for (;;) {
        if (taipan.connection >= 0 && taipan.phase == TAIPAN_NONE && taipan.in_start == taipan.in_end &&
            taipan.content + taipan.padding == 0 && taipan.idle_count < TAIPAN_IDLE_CONNECTIONS) {
            taipan.idle[taipan.idle_count++] = taipan.connection;
            taipan.connection = -1;
        }
        if (taipan.connection < 0) {
            taipan.broken = 0;
            if (!taipan_wait())
                return 0;
        }
        taipan_next_record();
        if (taipan.phase >= TAIPAN_BODY && taipan_set_environment())
            break;
        if (taipan.broken || taipan.phase >= TAIPAN_BODY)
            taipan_close();
    }
    /* Unread input and unsent output of the last request are dropped. */
    for (i = 0; i < 3; i++) {
        __fpurge(taipan.files[i]);
        clearerr(taipan.files[i]);
    }
    return 1;
}

#if !defined(__GLIBC__) || defined(TAIPAN_MACROS)
static inline FILE *taipan_file(int number)
{
    FILE *const plain[3] = {stdin, stdout, stderr};
    return taipan.files[number] != NULL ? taipan.files[number] : plain[number];
}

#undef stdin
#undef stdout
#undef stderr
#undef getchar
#undef putchar
#define stdin taipan_file(0)
#define stdout taipan_file(1)
#define stderr taipan_file(2)
#define printf(...) fprintf(stdout, __VA_ARGS__)
#define vprintf(format, arguments) vfprintf(stdout, format, arguments)
#define puts(text) (fputs(text, stdout) == EOF ? EOF : putc('\n', stdout))
#define putchar(byte) putc(byte, stdout)
#define getchar() getc(stdin)
#define scanf(...) fscanf(stdin, __VA_ARGS__)
#endif

#endif
