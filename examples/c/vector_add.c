/*
 * vector_add: adds two vectors on the accelerator, three ways, and checks every sum.
 *
 *     cargo build --release -p keeptime-accel-c
 *     cc -std=c99 -Icrates/serve/accel-c/include examples/c/vector_add.c \
 *         -Ltarget/release -lkeeptime -Wl,-rpath,$PWD/target/release -o vector_add
 *     ./vector_add [SOCKET]
 */
#include <keeptime.h>

#include <stdio.h>
#include <stdlib.h>

#define N ((size_t)10000)

/* Ends the program with the library's own words if a call failed. */
static void check(const char *call, int result) {
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", call, keeptime_error_name(result),
                keeptime_last_error(NULL));
        exit(1);
    }
}

/* The memory of the callback holds a, b and c, one after the other. */
static void fill(float *memory, float step) {
    for (size_t i = 0; i < N; i++) {
        memory[i] = (float)i;
        memory[N + i] = step * (float)i;
        memory[2 * N + i] = 0.0f;
    }
}

/* All numbers are small integers, so that the sums are exact. */
static void compare(const char *way, const float *memory, float step) {
    for (size_t i = 0; i < N; i++) {
        float expected = (float)i + step * (float)i;
        if (memory[2 * N + i] != expected) {
            fprintf(stderr, "%s: sum %zu is %g, expected %g\n", way, i, memory[2 * N + i],
                    expected);
            exit(1);
        }
    }
    printf("%s: %zu sums are right\n", way, N);
}

int main(int argc, char **argv) {
    const size_t vector = N * sizeof(float);
    keeptime_client *client;
    keeptime_callback add;

    /* Null means the default socket; see keeptime_connect(). */
    check("keeptime_connect", keeptime_connect(argc > 1 ? argv[1] : NULL, &client));

    /* One callback of the chain "perception", for the service "vecadd". The period declares the
     * chain to admission control: the server promises its deadline, or says why it cannot. Without
     * it (and what follows it) the chain is served, but nothing is promised. */
    keeptime_registration registration = {
        .size = sizeof registration,
        .service = "vecadd",
        .chain = "perception",
        .priority = 10,
        .memory_bytes = 3 * vector,
        .exec_ns = 200000000,
        .period_ns = 1000000000,
        .deadline_ns = 500000000,
        .cpu_ns = 50000000,
        .core = 0,
        .process_priority = 0,
        .flags = KEEPTIME_EXECUTOR,
    };
    check("keeptime_register", keeptime_register(client, &registration, &add));
    float *memory = keeptime_memory(client, add, NULL);

    /* The kernel takes the length of the vectors, a then b, and gives c. */
    keeptime_request request = {
        .size = sizeof request,
        .arguments = {N},
        .input_offset = 0,
        .input_length = 2 * vector,
        .output_offset = 2 * vector,
        .output_length = vector,
    };

    /* First way: send and wait in one call. */
    fill(memory, 2.0f);
    keeptime_outcome outcome = {.size = sizeof outcome};
    check("keeptime_run", keeptime_run(client, add, &request, &outcome));
    compare("run", memory, 2.0f);
    fprintf(stderr, "request %llu: %s, %llu ns from submission to answer\n",
            (unsigned long long)outcome.launch_id, keeptime_status_name(outcome.status),
            (unsigned long long)(outcome.answered_ns - outcome.submitted_ns));

    /* Second way: send, do something else, wait for at most a minute. */
    fill(memory, 3.0f);
    keeptime_ticket *ticket;
    check("keeptime_submit", keeptime_submit(client, add, &request, &ticket));
    check("keeptime_wait", keeptime_wait(client, ticket, 60000000000, &outcome));
    keeptime_ticket_free(ticket);
    compare("submit and wait", memory, 3.0f);

    /* Third way: look now and then. */
    fill(memory, 4.0f);
    int pending;
    check("keeptime_submit", keeptime_submit(client, add, &request, &ticket));
    do {
        pending = keeptime_poll(client, ticket, &outcome);
        check("keeptime_poll", pending);
    } while (pending == KEEPTIME_PENDING);
    keeptime_ticket_free(ticket);
    compare("submit and poll", memory, 4.0f);

    /* What the server says when something is wrong. */
    request.output_offset = 3 * vector;
    int result = keeptime_run(client, add, &request, &outcome);
    printf("a wrong range: %s, %s\n", keeptime_error_name(result),
           keeptime_status_name(outcome.status));

    check("keeptime_deregister", keeptime_deregister(client, add));
    keeptime_close(client);
    return result == KEEPTIME_FAILED ? 0 : 1;
}
