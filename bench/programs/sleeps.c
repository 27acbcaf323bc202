/* A script that sends nothing and sleeps until it is killed. */
#include <unistd.h>

int main(void)
{
    pause();
    return 0;
}
