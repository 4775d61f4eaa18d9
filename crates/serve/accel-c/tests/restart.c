/* A client whose server goes and comes back. It waits for a line before each of the two. */
#include <keeptime.h>

#include <stdio.h>
#include <stdlib.h>

static void expect(const char *what, int expected, int result) {
    if (result != expected) {
        printf("%s: %s: %s\n", what, keeptime_error_name(result), keeptime_last_error(NULL));
        exit(1);
    }
}

int main(void) {
    keeptime_client *client;
    keeptime_callback add;
    keeptime_ticket *ticket;
    keeptime_registration registration = {
        .size = sizeof registration, .service = "vecadd", .memory_bytes = 12};
    keeptime_request request = {.size = sizeof request,
                                .arguments = {1},
                                .input_length = 8,
                                .output_offset = 8,
                                .output_length = 4};
    setvbuf(stdout, NULL, _IOLBF, 0);

    expect("connect", KEEPTIME_OK, keeptime_connect(NULL, &client));
    expect("register", KEEPTIME_OK, keeptime_register(client, &registration, &add));
    float *memory = keeptime_memory(client, add, NULL);
    memory[0] = 40.0f;
    memory[1] = 2.0f;
    expect("run", KEEPTIME_OK, keeptime_run(client, add, &request, NULL));
    expect("submit", KEEPTIME_OK, keeptime_submit(client, add, &request, &ticket));
    puts("served");
    getchar();

    /* Nobody is there now. */
    keeptime_run(client, add, &request, NULL);
    int result = keeptime_reconnect(client, 1000000);
    printf("alone: %s\n", keeptime_error_name(result));
    getchar();

    /* A new server, which knows nothing; the client brings its callback and its memory. */
    expect("reconnect", KEEPTIME_OK, keeptime_reconnect(client, -1));
    int lost = keeptime_wait(client, ticket, -1, NULL);
    memory[2] = 0.0f;
    expect("run", KEEPTIME_OK, keeptime_run(client, add, &request, NULL));
    int same = memory == keeptime_memory(client, add, NULL) && memory[2] == 42.0f;
    printf("served again: the memory is %s, the old ticket %s\n", same ? "the same" : "another",
           keeptime_error_name(lost));
    keeptime_ticket_free(ticket);
    keeptime_close(client);
    return 0;
}
