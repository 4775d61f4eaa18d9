/* Says where it looks for a server when nobody tells it. */
#include <keeptime.h>

#include <stdio.h>

int main(void) {
    keeptime_client *client = NULL;
    int result = keeptime_connect(NULL, &client);
    printf("%s\n", result == KEEPTIME_OK ? "connected" : keeptime_last_error(NULL));
    keeptime_close(client);
    return 0;
}
