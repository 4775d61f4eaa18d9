/* Opens, takes and releases the lock, one step for each line of input, and says each step. */
#include "keeptime_bandwidth.h"

#include <errno.h>
#include <stdio.h>

static void say(const char *text, int number)
{
    printf("%s %d\n", text, number);
    fflush(stdout);
    if (getchar() == EOF)
        return;
}

int main(int count, char **arguments)
{
    keeptime_bandwidth *lock = NULL;
    const char *socket = count > 1 ? arguments[1] : NULL;
    /* Without a lock nothing happens. */
    keeptime_bandwidth_acquire(lock);
    keeptime_bandwidth_release(lock);
    printf("null %d\n", keeptime_bandwidth_open(socket, NULL) == -EINVAL);
    printf("missing %d\n", keeptime_bandwidth_open("/nobody/is/here", &lock) == -ENOENT);
    int error = keeptime_bandwidth_open(socket, &lock);
    say("opened", error);
    if (error != 0)
        return 1;
    errno = 1234;
    keeptime_bandwidth_acquire(lock);
    keeptime_bandwidth_acquire(lock);
    keeptime_bandwidth_release(lock);
    say("held", errno);
    /* Opened anew, it holds nothing. */
    say("anew", keeptime_bandwidth_open(socket, &lock));
    keeptime_bandwidth_acquire(lock);
    say("held", 0);
    keeptime_bandwidth_release(lock);
    say("released", 0);
    return 0;
}
