/* cc -O2 -o hello.cgi hello.c */
#include "taipan.h"

int main(void)
{
    unsigned long count = 0;
    while (taipan_accept()) {
        const char *query = getenv("QUERY_STRING");
        printf("Content-Type: text/plain\r\n\r\nHello!\n");
        printf("This is request %lu, with the query \"%s\".\n", ++count, query ? query : "");
    }
}
