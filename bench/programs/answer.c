/* The script of bench/scripts. It speaks CGI when started for one request, and FastCGI when started with a socket.
 * With -DBYTES=N its body is N bytes of the text that lib/site.py makes. */
#include "taipan.h"

int main(void)
{
    while (taipan_accept()) {
        printf("Content-Type: text/plain\r\n\r\n");
#ifdef BYTES
        static const char line[] = "All work and no play makes a web server a dull server.\n";
        size_t left = BYTES;
        for (; left >= sizeof line - 1; left -= sizeof line - 1)
            fwrite(line, 1, sizeof line - 1, stdout);
        fwrite(line, 1, left, stdout);
#else
        printf("Hello!\n");
#endif
    }
    return 0;
}
