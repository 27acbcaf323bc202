/* The program under test; it does the same as echo.py and echo.pl. */
#include "taipan.h"

#define BIG (8 << 20)

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "none";
}

static void head(void)
{
    printf("Content-Type: text/plain\r\n\r\n");
}

static void copy(void)
{
    static char buffer[100000];
    size_t len;
    while ((len = fread(buffer, 1, sizeof buffer, stdin)) > 0)
        fwrite(buffer, 1, len, stdout);
}

static void lines(void)
{
    char line[100] = "", last[100] = "";
    int count = 0;
    while (fgets(line, sizeof line, stdin) != NULL) {
        memcpy(last, line, sizeof last);
        count++;
    }
    printf("%d %s", count, last);
}

static void big(void)
{
    static char line[1 << 16];
    int i;
    memset(line, 'x', sizeof line);
    for (i = 0; i < BIG / (int)sizeof line; i++)
        fwrite(line, 1, sizeof line, stdout);
}

int main(void)
{
    while (taipan_accept()) {
        const char *query = variable("QUERY_STRING");
        head();
        if (strcmp(query, "echo") == 0) {
            copy();
        } else if (strcmp(query, "lines") == 0) {
            lines();
        } else if (strcmp(query, "big") == 0) {
            big();
        } else if (strcmp(query, "environment") == 0) {
            printf("%s %s %s %s", variable("BASE"), variable("ONCE"), variable("HTTP_PROXY"), variable("LONG"));
        } else if (strcmp(query, "stderr") == 0) {
            fprintf(stderr, "oops\n");
            puts("Hello!");
        } else if (strcmp(query, "exit") == 0) {
            printf("partial");
            exit(3);
        } else if (strcmp(query, "endless") == 0) {
            while (!ferror(stdout))
                puts("and so on");
            fprintf(stderr, "left\n");
        } else if (strcmp(query, "step") == 0) {
            int byte;
            putchar('1');
            fflush(stdout);
            byte = getchar();
            putchar(byte);
            putchar('2');
        } else {
            puts("Hello!");
        }
    }
    return 0;
}
