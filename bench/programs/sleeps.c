/* A script that answers nothing until it is ended. */
#include <unistd.h>

int main(void)
{
    pause();
    return 0;
}
