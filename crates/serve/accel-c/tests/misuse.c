/* Calls every function wrongly. None may crash; each must say what is wrong. */
#include <keeptime.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int mistakes = 0;

static void expect(const char *what, int expected, int result, const char *words) {
    const char *text = keeptime_last_error(NULL);
    if (result != expected || strstr(text, words) == NULL) {
        printf("%s: %s, \"%s\"\n", what, keeptime_error_name(result), text);
        mistakes++;
    }
}

#define INVALID(call, words) expect(#call, KEEPTIME_INVALID, (call), (words))

static void without_client(void) {
    keeptime_registration registration = {.size = sizeof registration, .service = "vecadd"};
    keeptime_request request = {.size = sizeof request};
    keeptime_outcome outcome = {.size = sizeof outcome};
    keeptime_counters counters = {.size = sizeof counters};
    keeptime_callback callback = 7;
    keeptime_ticket *ticket = NULL;
    uint32_t bucket = 0;
    size_t size = 7;

    INVALID(keeptime_connect(NULL, NULL), "client");
    INVALID(keeptime_connect_to(NULL, 0, NULL), "client");
    INVALID(keeptime_reconnect(NULL, 0), "client");
    INVALID(keeptime_set_wait(NULL, KEEPTIME_SPIN), "client");
    INVALID(keeptime_status(NULL, &counters), "client");
    INVALID(keeptime_register(NULL, &registration, &callback), "client");
    INVALID(keeptime_deregister(NULL, 1), "client");
    INVALID(keeptime_reprioritise(NULL, 1, 1), "client");
    INVALID(keeptime_bucket(NULL, 1, &bucket), "client");
    INVALID(keeptime_run(NULL, 1, &request, &outcome), "client");
    INVALID(keeptime_submit(NULL, 1, &request, &ticket), "client");
    INVALID(keeptime_poll(NULL, ticket, &outcome), "client");
    INVALID(keeptime_wait(NULL, ticket, 0, &outcome), "client");
    INVALID(keeptime_cancel(NULL, ticket), "client");
    if (keeptime_memory(NULL, 1, &size) != NULL || size != 0) {
        INVALID(0, "memory of no client");
    }
    keeptime_close(NULL);
    keeptime_ticket_free(NULL);
    if (keeptime_last_refusal(NULL) != KEEPTIME_REFUSAL_NONE) {
        INVALID(0, "refusal without a refusal");
    }
}

static void without_server(void) {
    keeptime_client *client = (keeptime_client *)&client;
    expect("no server", KEEPTIME_NO_SERVER, keeptime_connect("/nonexistent/socket", &client),
           "/nonexistent/socket");
    if (client != NULL) {
        INVALID(0, "the client is not null after an error");
    }
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    expect("long path", KEEPTIME_NO_SERVER, keeptime_connect(longest, &client), "");
    expect("empty path", KEEPTIME_NO_SERVER, keeptime_connect("", &client), "");
}

/* What the server says to declarations that cannot be, and to one that it cannot promise. */
static void declarations(keeptime_client *client) {
    keeptime_registration good = {.size = sizeof good,
                                  .service = "busy",
                                  .chain = "brake",
                                  .priority = 9,
                                  .exec_ns = 40000000,
                                  .period_ns = 100000000,
                                  .deadline_ns = 90000000,
                                  .cpu_ns = 5000000,
                                  .cpu_min_ns = 1000000,
                                  .core = 1,
                                  .process_priority = 50,
                                  .wait_mode = KEEPTIME_SPIN,
                                  .flags = KEEPTIME_EXECUTOR};
    keeptime_registration bad = good;
    keeptime_callback brake = 0, other = 0;

    expect("declared", KEEPTIME_OK, keeptime_register(client, &good, &brake), "");
    bad.deadline_ns = 100000001;
    expect("deadline", KEEPTIME_REFUSED, keeptime_register(client, &bad, &other), "the period");
    if (keeptime_last_refusal(client) != KEEPTIME_REFUSAL_DECLARATION) {
        INVALID(0, "kind of refusal of a contradiction");
    }
    bad = good;
    bad.flags = 0;
    bad.core = bad.process_priority = 0;
    expect("executor", KEEPTIME_REFUSED, keeptime_register(client, &bad, &other), "no executor");
    bad = good;
    bad.position = 1;
    bad.callback = 1;
    bad.requests = 3;
    expect("late", KEEPTIME_REFUSED, keeptime_register(client, &bad, &other), "deadline 90 ms");
    if (keeptime_last_refusal(client) != KEEPTIME_REFUSAL_ADMISSION) {
        INVALID(0, "kind of refusal of a late chain");
    }
    bad.requests = 0; /* as much as 1, but of a chain that declares something else */
    bad.jitter_ns = 1;
    expect("jitter", KEEPTIME_REFUSED, keeptime_register(client, &bad, &other), "jitter 1 ns");
    expect("deregister", KEEPTIME_OK, keeptime_deregister(client, brake), "");
    /* A program of the first version knows none of this. */
    bad = good;
    bad.size = offsetof(keeptime_registration, exec_min_ns);
    bad.chain = "first version";
    bad.priority = 1;
    expect("version 1", KEEPTIME_OK, keeptime_register(client, &bad, &other), "");
    expect("deregister", KEEPTIME_OK, keeptime_deregister(client, other), "");
}

static void registrations(keeptime_client *client) {
    keeptime_registration good = {.size = sizeof good, .service = "vecadd", .memory_bytes = 12};
    keeptime_registration bad = good;
    keeptime_callback callback = 7;
    char longest[KEEPTIME_NAME_BYTES + 2];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;

    INVALID(keeptime_register(client, &good, NULL), "callback");
    INVALID(keeptime_register(client, NULL, &callback), "null");
    if (callback != 0) {
        INVALID(0, "the callback is not zero after an error");
    }
    bad.size = 0;
    INVALID(keeptime_register(client, &bad, &callback), "size is 0");
    bad = good;
    bad.service = NULL;
    INVALID(keeptime_register(client, &bad, &callback), "service");
    bad.service = "";
    INVALID(keeptime_register(client, &bad, &callback), "service");
    bad.service = "\xff";
    INVALID(keeptime_register(client, &bad, &callback), "UTF-8");
    bad = good;
    bad.chain = longest;
    INVALID(keeptime_register(client, &bad, &callback), "chain");
    bad = good;
    bad.accelerator = "a\nb";
    INVALID(keeptime_register(client, &bad, &callback), "accelerator");
    bad = good;
    bad.reserved = 1;
    INVALID(keeptime_register(client, &bad, &callback), "reserved");
    bad = good;
    bad.flags = 4;
    INVALID(keeptime_register(client, &bad, &callback), "flags 0x4");
    bad = good;
    bad.core = 1;
    INVALID(keeptime_register(client, &bad, &callback), "KEEPTIME_EXECUTOR");
    bad = good;
    bad.wait_mode = 2;
    INVALID(keeptime_register(client, &bad, &callback), "wait mode 2");
    bad = good;
    bad.memory_bytes = SIZE_MAX;
    INVALID(keeptime_register(client, &bad, &callback), "bytes");
    bad = good;
    bad.memory_bytes = SIZE_MAX / 4;
    if (keeptime_register(client, &bad, &callback) >= 0) {
        INVALID(0, "more memory than there is");
    }
    bad = good;
    bad.service = "no such service";
    expect("service", KEEPTIME_REFUSED, keeptime_register(client, &bad, &callback), "no such");
    if (keeptime_last_refusal(client) != KEEPTIME_REFUSAL_UNKNOWN) {
        INVALID(0, "kind of refusal");
    }
    declarations(client);
    INVALID(keeptime_deregister(client, 0), "callback 0");
    INVALID(keeptime_deregister(client, 99), "callback 99");
    INVALID(keeptime_deregister(client, UINT64_MAX), "callback");
    INVALID(keeptime_reprioritise(client, 99, 1), "callback 99");
    INVALID(keeptime_bucket(client, 99, NULL), "");
    INVALID(keeptime_set_wait(client, 2), "wait mode 2");
    INVALID(keeptime_set_wait(client, -1), "wait mode -1");
    INVALID(keeptime_status(client, NULL), "counters");
}

static void requests(keeptime_client *client, keeptime_client *other) {
    keeptime_registration registration = {
        .size = sizeof registration, .service = "vecadd", .memory_bytes = 12};
    keeptime_request good = {.size = sizeof good,
                             .arguments = {1},
                             .input_length = 8,
                             .output_offset = 8,
                             .output_length = 4};
    keeptime_request bad = good;
    keeptime_outcome outcome = {.size = sizeof outcome};
    keeptime_callback callback = 0;
    keeptime_ticket *ticket = NULL;
    size_t size = 0;

    expect("register", KEEPTIME_OK, keeptime_register(client, &registration, &callback), "");
    float *memory = keeptime_memory(client, callback, &size);
    if (memory == NULL || size != 12) {
        INVALID(0, "memory");
        return;
    }
    memory[0] = 1.0f;
    memory[1] = 2.0f;
    INVALID(keeptime_run(client, 99, &good, &outcome), "callback 99");
    INVALID(keeptime_run(client, callback, NULL, &outcome), "null");
    outcome.size = 3;
    INVALID(keeptime_run(client, callback, &good, &outcome), "size is 3");
    outcome.size = sizeof outcome;
    bad.input_length = SIZE_MAX;
    INVALID(keeptime_run(client, callback, &bad, &outcome), "input_length");
    INVALID(keeptime_submit(client, callback, &good, NULL), "ticket");
    INVALID(keeptime_wait(client, NULL, 0, &outcome), "ticket");

    bad.input_length = 4096;
    expect("range", KEEPTIME_FAILED, keeptime_run(client, callback, &bad, &outcome), "OutOfRange");
    if (outcome.status != KEEPTIME_STATUS_OUT_OF_RANGE || outcome.launch_id == 0) {
        INVALID(0, "outcome of a failed request");
    }
    bad = good;
    bad.arguments[0] = UINT64_MAX;
    expect("arguments", KEEPTIME_FAILED, keeptime_run(client, callback, &bad, NULL), "BadArguments");

    expect("submit", KEEPTIME_OK, keeptime_submit(client, callback, &good, &ticket), "");
    INVALID(keeptime_poll(other, ticket, &outcome), "another client");
    INVALID(keeptime_cancel(other, ticket), "another client");
    expect("wait", KEEPTIME_OK, keeptime_wait(client, ticket, -1, &outcome), "");
    expect("again", KEEPTIME_OK, keeptime_poll(client, ticket, NULL), "");
    expect("cancel", KEEPTIME_TOO_LATE, keeptime_cancel(client, ticket), "");
    keeptime_ticket_free(ticket);
    if (memory[2] != 3.0f) {
        INVALID(0, "the sum is wrong");
    }

    keeptime_ticket *tickets[KEEPTIME_SLOTS];
    for (int i = 0; i < KEEPTIME_SLOTS; i++) {
        expect("fill", KEEPTIME_OK, keeptime_submit(client, callback, &good, &tickets[i]), "");
    }
    expect("full", KEEPTIME_FULL, keeptime_submit(client, callback, &good, &ticket), "64");
    for (int i = 0; i < KEEPTIME_SLOTS; i++) {
        expect("drain", KEEPTIME_OK, keeptime_wait(client, tickets[i], -1, NULL), "");
        keeptime_ticket_free(tickets[i]);
    }
    expect("submit", KEEPTIME_OK, keeptime_submit(client, callback, &good, &ticket), "");
    expect("deregister", KEEPTIME_OK, keeptime_deregister(client, callback), "");
    INVALID(keeptime_run(client, callback, &good, NULL), "not registered");
    keeptime_close(client);
    keeptime_ticket_free(ticket);
}

/* Two threads in one client: the rule is broken on purpose, so both answers are right. */
static void *set_wait(void *client) {
    for (int i = 0; i < 100000; i++) {
        int result = keeptime_set_wait(client, i % 2);
        if (result != KEEPTIME_OK && result != KEEPTIME_BUSY) {
            return "neither done nor busy";
        }
    }
    return NULL;
}

static void threads(keeptime_client *client) {
    pthread_t second;
    void *complaint = NULL;
    pthread_create(&second, NULL, set_wait, client);
    void *own = set_wait(client);
    pthread_join(second, &complaint);
    if (own != NULL || complaint != NULL) {
        INVALID(0, "neither done nor busy");
    }
}

int main(void) {
    keeptime_client *client = NULL, *other = NULL;
    without_client();
    without_server();
    expect("connect", KEEPTIME_OK, keeptime_connect(NULL, &client), "");
    expect("connect", KEEPTIME_OK, keeptime_connect(NULL, &other), "");
    if (client != NULL && other != NULL) {
        registrations(client);
        requests(client, other);
        threads(other);
    }
    keeptime_counters counters = {.size = sizeof counters};
    expect("status", KEEPTIME_OK, keeptime_status(other, &counters), "");
    printf("%d mistakes, %llu sessions opened\n", mistakes, (unsigned long long)counters.opened);
    keeptime_close(other);
    return mistakes;
}
