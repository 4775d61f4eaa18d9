// The C++ classes: ownership, moves, exceptions, cancellation.
#include <keeptime.h>

#include <cstdio>
#include <type_traits>

static int mistakes = 0;

static void expect(const char *what, bool good) {
    if (!good) {
        std::printf("%s\n", what);
        mistakes++;
    }
}

static_assert(!std::is_copy_constructible_v<keeptime::Client>);
static_assert(!std::is_copy_constructible_v<keeptime::Callback>);
static_assert(!std::is_copy_constructible_v<keeptime::Ticket>);
static_assert(std::is_nothrow_move_constructible_v<keeptime::Client>);
static_assert(std::is_nothrow_move_constructible_v<keeptime::Callback>);
static_assert(std::is_nothrow_move_constructible_v<keeptime::Ticket>);

// The callback and the ticket outlive the client object, which is gone when this returns.
static keeptime::Callback orphan() {
    keeptime::Client client;
    return client.callback(keeptime::Registration("vecadd").memory(3 * sizeof(float)));
}

static void ownership() {
    const keeptime::Request request = keeptime::Request({1}).input(0, 8).output(8, 4);
    keeptime::Callback add = orphan();
    expect("count", add.count<float>() == 3);
    add.data<float>()[0] = 1.0f;
    add.data<float>()[1] = 2.0f;
    keeptime::Ticket ticket = add.submit(request);
    keeptime::Callback moved = std::move(add);
    expect("launch id", ticket.wait().launch_id == 1);
    expect("polled again", ticket.poll().has_value());
    expect("cancelled too late", !ticket.cancel());
    expect("sum", moved.data<float>()[2] == 3.0f);
    expect("moved from", add.get() == 0 && add.data<float>() == nullptr);
    add = orphan();
    std::swap(add, moved);
    expect("outcome", add.run(request).status == KEEPTIME_STATUS_DONE);
}

static void counters() {
    keeptime::Client client;
    keeptime::Callback first = client.callback(keeptime::Registration("empty").chain("a", 3));
    expect("no memory", first.data<float>() == nullptr && first.count<float>() == 0);
    {
        keeptime::Callback second = client.callback(keeptime::Registration("empty").chain("b", 9));
        expect("two registrations", client.status().registrations == 2);
        expect("buckets", second.bucket() >= first.bucket());
    }
    expect("one registration", client.status().registrations == 1);
    first.reprioritise(4);
    client.reconnect(std::chrono::seconds(5));
    first.run(keeptime::Request());
}

static void exceptions() {
    keeptime::Client client;
    keeptime::Callback add = client.callback(keeptime::Registration("vecadd").memory(12));
    try {
        add.run(keeptime::Request({1}).input(0, 4096).output(8, 4));
        expect("an exception", false);
    } catch (const keeptime::Error &error) {
        expect("code", error.code() == KEEPTIME_FAILED);
        expect("status", error.status() == KEEPTIME_STATUS_OUT_OF_RANGE);
    }
    try {
        keeptime::Client("/nonexistent/socket");
        expect("an exception", false);
    } catch (const keeptime::Error &error) {
        expect("no server", error.code() == KEEPTIME_NO_SERVER);
    }
    keeptime::Client moved = std::move(client);
    try {
        client.status(); // NOLINT: what a moved-from client does is defined
        expect("an exception", false);
    } catch (const keeptime::Error &error) {
        expect("moved from", error.code() == KEEPTIME_INVALID);
    }
    try {
        keeptime::Request({1, 2, 3, 4, 5});
        expect("an exception", false);
    } catch (const std::length_error &) {
    }
}

static void declarations() {
    using std::chrono::milliseconds;
    keeptime::Client client;
    auto brake = keeptime::Registration("busy")
                     .chain("brake", 9)
                     .period(milliseconds(100), milliseconds(90))
                     .jitter(milliseconds(1))
                     .exec(milliseconds(40))
                     .exec_min(milliseconds(1))
                     .cpu(milliseconds(5), milliseconds(1))
                     .position(0)
                     .requests(1)
                     .executor(1, 50)
                     .wait(keeptime::Wait::suspend);
    keeptime::Callback first = client.callback(brake);
    try {
        client.callback(brake.position(1).number(1).requests(2));
        expect("an exception", false);
    } catch (const keeptime::Error &error) {
        expect("late", error.refusal() == KEEPTIME_REFUSAL_ADMISSION);
    }
    try {
        // On the same executor even a chain that is promised nothing would hold up the other.
        auto map = keeptime::Registration("busy").chain("map", 1).executor(1, 50).best_effort();
        client.callback(map.period(milliseconds(100)).exec(milliseconds(99)));
        expect("an exception", false);
    } catch (const keeptime::Error &error) {
        expect("blocking", error.refusal() == KEEPTIME_REFUSAL_ADMISSION);
    }
    keeptime::Client other;
    auto map = keeptime::Registration("busy").chain("map", 1).executor(2, 50).best_effort();
    keeptime::Callback second = other.callback(map.period(milliseconds(100)).exec(milliseconds(99)));
    expect("below", second.bucket() < first.bucket());
}

int main() {
    ownership();
    counters();
    exceptions();
    declarations();
    std::printf("%d mistakes\n", mistakes);
    return mistakes;
}
