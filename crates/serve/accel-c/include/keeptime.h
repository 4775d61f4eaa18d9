/*
 * keeptime.h: the client of the Keeptime accelerator server, for C99 and C++17.
 *
 * A client connects to a server, registers callbacks, each for one service (a kernel of an
 * accelerator), and sends requests to them. The data of a request lies in memory that the client
 * shares with the server: keeptime_memory() says where, the client writes its input there, and
 * finds the output there when the request is done. Nothing is copied on the way.
 *
 *     keeptime_client *client;
 *     keeptime_callback add;
 *     keeptime_registration registration = {
 *         .size = sizeof registration, .service = "vecadd", .memory_bytes = 12 * n };
 *     keeptime_request request = {
 *         .size = sizeof request, .arguments = { n },
 *         .input_length = 8 * n, .output_offset = 8 * n, .output_length = 4 * n };
 *
 *     keeptime_connect(NULL, &client);
 *     keeptime_register(client, &registration, &add);
 *     float *numbers = keeptime_memory(client, add, NULL);
 *     ... write 2 * n numbers ...
 *     keeptime_run(client, add, &request, NULL);
 *     ... read n sums from numbers + 2 * n ...
 *
 * Results. Functions return KEEPTIME_OK, a negative enum keeptime_error, or in two places a
 * positive enum keeptime_answer. keeptime_last_error() explains a negative one in words.
 *
 * Structures. Each begins with its size, which the caller sets to sizeof the structure, and is
 * zero where it is not set. Later versions of the library only add fields at the ends, so a
 * program that was compiled against an older header keeps working.
 *
 * Threads. A client, with its callbacks and tickets, belongs to one thread at a time; it may be
 * handed over. A call that finds another thread inside the same client returns KEEPTIME_BUSY and
 * does nothing. Different clients do not disturb each other.
 *
 * Pointers. A null pointer where none is allowed is KEEPTIME_INVALID. A pointer to anything else
 * than what the parameter asks for, or to something that was closed or freed, is undefined
 * behaviour, as in any C library.
 *
 * C++. The classes at the end of this file wrap all of it; they throw keeptime::Error.
 */
#ifndef KEEPTIME_H
#define KEEPTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------ constants */

/* Results of functions. */
enum keeptime_error {
    KEEPTIME_OK = 0,
    /* No server answers at the socket. */
    KEEPTIME_NO_SERVER = -1,
    /* The server ended or closed the session; the request may or may not have run. The next
     * call connects and registers anew, see also keeptime_reconnect(). */
    KEEPTIME_SERVER_LOST = -2,
    /* The server said no; keeptime_last_refusal() says what kind of no. */
    KEEPTIME_REFUSED = -3,
    /* The request ended, but not as done; the outcome's status says how. */
    KEEPTIME_FAILED = -4,
    /* KEEPTIME_SLOTS requests are outstanding. */
    KEEPTIME_FULL = -5,
    /* The time given is over; the request goes on. */
    KEEPTIME_TIMED_OUT = -6,
    /* A parameter is wrong. */
    KEEPTIME_INVALID = -7,
    /* Whatever listens at the socket speaks another protocol. */
    KEEPTIME_PROTOCOL = -8,
    /* The operating system refused: memory, descriptors, a system call. */
    KEEPTIME_SYSTEM = -9,
    /* Another thread is inside the same client. */
    KEEPTIME_BUSY = -10,
    /* A bug in the library. The client can only be closed. */
    KEEPTIME_INTERNAL = -11
};

/* Further results of keeptime_poll() and keeptime_cancel(). */
enum keeptime_answer {
    /* keeptime_poll: the request has not ended yet. */
    KEEPTIME_PENDING = 1,
    /* keeptime_cancel: the request has begun or has ended already; wait for it as usual. */
    KEEPTIME_TOO_LATE = 2
};

/* Status of a request that ended: keeptime_outcome.status. */
enum keeptime_status_code {
    KEEPTIME_STATUS_DONE = 1,
    /* It was taken back before it began, or its session or registration ended. */
    KEEPTIME_STATUS_CANCELLED = 2,
    KEEPTIME_STATUS_DEVICE_FAILED = 3,
    KEEPTIME_STATUS_UNKNOWN_REGISTRATION = 4,
    /* A data range lies outside the registered memory. */
    KEEPTIME_STATUS_OUT_OF_RANGE = 5,
    /* The service does not accept these arguments with data of these sizes. */
    KEEPTIME_STATUS_BAD_ARGUMENTS = 6,
    /* Of a cancellation only. */
    KEEPTIME_STATUS_TOO_LATE = 7,
    /* The device broke down while the request ran, by it or by another one, and is set up anew. */
    KEEPTIME_STATUS_DEVICE_LOST = 8
};

/* Reasons for which the server refuses: keeptime_last_refusal(). */
enum keeptime_refusal {
    /* The last error was no refusal. */
    KEEPTIME_REFUSAL_NONE = 0,
    KEEPTIME_REFUSAL_MALFORMED = 1,
    KEEPTIME_REFUSAL_VERSION = 2,
    /* This user may not connect. */
    KEEPTIME_REFUSAL_NOT_ALLOWED = 3,
    /* The priority is not one that this user may ask for, or not that of the chain. */
    KEEPTIME_REFUSAL_PRIORITY = 4,
    /* Sessions, registrations, memory, or connections per second. */
    KEEPTIME_REFUSAL_LIMIT = 5,
    /* No such service or accelerator. */
    KEEPTIME_REFUSAL_UNKNOWN = 6,
    KEEPTIME_REFUSAL_MEMORY = 7,
    KEEPTIME_REFUSAL_VIOLATION = 8,
    /* The server is ending. */
    KEEPTIME_REFUSAL_ENDING = 9,
    KEEPTIME_REFUSAL_DEVICE = 10,
    /* A chain would miss its deadline: this one, or one that was admitted before. It may be
     * admitted later, when others have gone. */
    KEEPTIME_REFUSAL_ADMISSION = 11,
    /* The declaration contradicts itself, or an earlier registration of the same chain. */
    KEEPTIME_REFUSAL_DECLARATION = 12,
    /* A reason that this version of the library does not know. */
    KEEPTIME_REFUSAL_OTHER = 65535
};

/* Ways in which a client waits: keeptime_set_wait(). */
enum keeptime_wait_mode {
    /* Sleeps until the server wakes it; what a new client does. */
    KEEPTIME_SUSPEND = 0,
    /* Watches the completion and keeps its core busy. */
    KEEPTIME_SPIN = 1
};

/* Bits of keeptime_registration.flags. */
enum keeptime_registration_flag {
    /* The chain's own deadline does not count: it is promised nothing, and let in unless it
     * breaks a promise to another chain. */
    KEEPTIME_BEST_EFFORT = 1,
    /* core and process_priority are set. */
    KEEPTIME_EXECUTOR = 2
};

/* Bits of keeptime_outcome.flags. */
enum keeptime_outcome_flag {
    /* The request ran longer than its declared execution time. */
    KEEPTIME_OVERRAN = 1,
    /* It was moved to the lowest bucket because of that. */
    KEEPTIME_DEMOTED = 2
};

/* Requests of one client that may be outstanding. */
#define KEEPTIME_SLOTS 64

/* Longest name of a service, chain or accelerator in bytes, without the final zero. */
#define KEEPTIME_NAME_BYTES 48

/* ----------------------------------------------------------------------------- structures */

/* A connection to a server, with its callbacks. */
typedef struct keeptime_client keeptime_client;

/* An outstanding request of one client. */
typedef struct keeptime_ticket keeptime_ticket;

/* A registered callback of one client. Never zero; a number may come back after
 * keeptime_deregister(). */
typedef uint64_t keeptime_callback;

/* A registration of a callback with a service. */
typedef struct keeptime_registration {
    size_t size;
    /* The service's name. */
    const char *service;
    /* The chain that the callback belongs to; null: a chain with the name of the service. */
    const char *chain;
    /* The accelerator, where several offer the service; null: the server's choice. */
    const char *accelerator;
    /* Bytes of memory that requests and results share; 0 for none. */
    size_t memory_bytes;
    /* Longest time for which one request occupies the device; 0: not declared. */
    uint64_t exec_ns;
    /* The client's own number for the callback, for the server's records. */
    uint64_t callback;
    /* Priority of the chain; larger is more critical. */
    uint32_t priority;
    /* Zero. */
    uint32_t reserved;
    /* Shortest time for which one request occupies the device; 0: not known. */
    uint64_t exec_min_ns;
    /* The rest declares the chain to admission control. With a period, the server promises that
     * the chain keeps its deadline, or refuses; without one all of it is zero, except for
     * position, requests and the executor. All callbacks of a chain declare the same period,
     * deadline, jitter, wait mode and priority. */
    /* Least distance between two releases of the chain. */
    uint64_t period_ns;
    /* From the nominal release of the first callback to the end of the last one; 0: the period. */
    uint64_t deadline_ns;
    /* Release jitter: largest delay of a job's release after its nominal release. */
    uint64_t jitter_ns;
    /* Processor time of the callback at most, without what requests cost. */
    uint64_t cpu_ns;
    /* Processor time of the callback at least; 0: not known. */
    uint64_t cpu_min_ns;
    /* Position of the callback in the chain, from 0. A second registration at the same position,
     * of the same callback number in the same client, is another request of that callback. */
    uint32_t position;
    /* Requests that one job of the chain sends by this registration; 0 means 1. */
    uint32_t requests;
    /* Executor of the callback, needed with a period: the core that its thread is kept on, and the
     * thread's SCHED_FIFO priority, 0 for normal scheduling. They count with KEEPTIME_EXECUTOR in
     * flags. All registrations of one client are run by one thread, so they declare the same. */
    uint32_t core;
    uint32_t process_priority;
    /* Way in which the chain waits, an enum keeptime_wait_mode; keeptime_set_wait() makes it so. */
    uint32_t wait_mode;
    /* Bits of enum keeptime_registration_flag. */
    uint32_t flags;
} keeptime_registration;

/* A request. Offsets count from the beginning of the callback's memory; offsets and lengths
 * are at most 4294967295. */
typedef struct keeptime_request {
    size_t size;
    /* Arguments; the service defines their meaning. */
    uint64_t arguments[4];
    size_t input_offset;
    size_t input_length;
    size_t output_offset;
    size_t output_length;
} keeptime_request;

/* Outcome of a request. Times are CLOCK_MONOTONIC nanoseconds, 0 where a step did not happen. */
typedef struct keeptime_outcome {
    size_t size;
    /* The number of the request in this client, from 1. */
    uint64_t launch_id;
    /* An enum keeptime_status_code. */
    uint32_t status;
    /* Bits of enum keeptime_outcome_flag. */
    uint32_t flags;
    /* Time at which the client sent it. */
    uint64_t submitted_ns;
    /* Time at which the server took it from the ring. */
    uint64_t arrived_ns;
    /* Time at which the device began. */
    uint64_t started_ns;
    /* Time at which the device was done. */
    uint64_t finished_ns;
    /* Time for which the device worked on it, without preemptions. */
    uint64_t busy_ns;
    /* Time at which the server published the outcome. */
    uint64_t answered_ns;
} keeptime_outcome;

/* The server's counters. */
typedef struct keeptime_counters {
    size_t size;
    /* Now: sessions, registrations, requests in buckets, requests on devices, mapped bytes. */
    uint64_t sessions;
    uint64_t registrations;
    uint64_t queued;
    uint64_t running;
    uint64_t memory_bytes;
    /* Since the start: requests by their end. */
    uint64_t done;
    uint64_t cancelled;
    uint64_t failed;
    /* Since the start: requests that ran longer than declared, and those demoted for it. */
    uint64_t overruns;
    uint64_t demotions;
    /* Since the start: sessions opened, refusals, sessions closed for breaking the protocol,
     * and doorbells that were not listened to for a while. */
    uint64_t opened;
    uint64_t refusals;
    uint64_t evictions;
    uint64_t mutings;
} keeptime_counters;

/* ----------------------------------------------------------------------------- connection */

/* The version of the library, as in "0.1.0". */
const char *keeptime_version(void);

/* Connects to the server whose socket is at `socket_path`, and stores the client in `*client`.
 *
 * Null stands for $KEEPTIME_SOCKET; if that is not set, for the first of these that exists:
 * $XDG_RUNTIME_DIR/keeptime/keeptime.sock, /run/user/UID/keeptime/keeptime.sock,
 * /tmp/keeptime-UID/keeptime.sock; otherwise for /run/keeptime/keeptime.sock.
 *
 * A program with more rights than whoever started it (set-user-id, set-group-id, capabilities of
 * its file) does not look at these variables. The server has to be root's, or that of the user
 * whose rights this program has; see keeptime_connect_to() for others.
 *
 * While the server's queue is full, this waits for a place in it, at most 5 s.
 *
 * On an error `*client` becomes null, and keeptime_last_error(NULL) explains.
 * Errors: NO_SERVER, REFUSED, PROTOCOL, INVALID, SYSTEM. */
int keeptime_connect(const char *socket_path, keeptime_client **client);

/* As keeptime_connect(), to a server that is root's or that of `user` (a uid_t), who is trusted
 * with what this program asks for and computes. A constant or a setting that only root can write
 * is a good place for the number; the environment is not. */
int keeptime_connect_to(const char *socket_path, uint32_t user, keeptime_client **client);

/* Ends the connection, all registrations and their memory. Requests that have not begun are
 * cancelled. Tickets of this client stay valid for keeptime_ticket_free() only. Null is allowed.
 * No other thread may be inside the client. */
void keeptime_close(keeptime_client *client);

/* Connects again, tries for at most `patience_ns` (negative: for ever), and registers all
 * callbacks anew; their memory and its contents stay. Only needed to wait for a server that is
 * being restarted: other calls try once to connect by themselves.
 * Errors: those of keeptime_connect() and keeptime_register(). */
int keeptime_reconnect(keeptime_client *client, int64_t patience_ns);

/* Chooses how this client waits from now on: an enum keeptime_wait_mode. Errors: INVALID. */
int keeptime_set_wait(keeptime_client *client, int mode);

/* Asks for the server's counters; the caller sets `counters->size` before.
 * Errors: SERVER_LOST, NO_SERVER, INVALID. */
int keeptime_status(keeptime_client *client, keeptime_counters *counters);

/* ------------------------------------------------------------------------------ callbacks */

/* Registers a callback for a service.
 * Errors: REFUSED, INVALID (a name is empty, too long, not UTF-8 or has characters that cannot be seen),
 * SYSTEM (no memory), SERVER_LOST, NO_SERVER. */
int keeptime_register(keeptime_client *client, const keeptime_registration *registration,
                      keeptime_callback *callback);

/* Ends a registration and unmaps its memory. Its queued requests end as cancelled; those that
 * have begun end, and nobody sees their output.
 * Errors: INVALID (no such callback), SERVER_LOST, NO_SERVER. */
int keeptime_deregister(keeptime_client *client, keeptime_callback callback);

/* Gives the callback's chain another priority, for requests sent from now on. A chain that was
 * declared moves as a whole, or is refused and stays; one that was not is not known as one, and
 * only this callback moves.
 * Errors: REFUSED, INVALID, SERVER_LOST, NO_SERVER. */
int keeptime_reprioritise(keeptime_client *client, keeptime_callback callback, uint32_t priority);

/* The bucket into which the server put the callback when it was registered or reprioritised.
 * Errors: INVALID. */
int keeptime_bucket(keeptime_client *client, keeptime_callback callback, uint32_t *bucket);

/* The first byte of the callback's memory, and its size in `*size` unless that is null. Null if
 * the callback was registered without memory, and on an error: then `*size` is 0 as well.
 *
 * The memory is aligned to a page and zero at first. It stays at this address until the callback
 * is deregistered or the client closed, also when the server is restarted. From the submission of
 * a request until its end, its input must not be written and its output not be touched; the
 * library orders all other accesses. */
void *keeptime_memory(keeptime_client *client, keeptime_callback callback, size_t *size);

/* ------------------------------------------------------------------------------- requests */

/* Sends a request and waits until it ended. `*outcome`, unless null, is filled in if the request
 * ended, also if it FAILED; the caller sets `outcome->size` before.
 * Errors: FAILED, SERVER_LOST, FULL, INVALID, NO_SERVER, REFUSED. */
int keeptime_run(keeptime_client *client, keeptime_callback callback,
                 const keeptime_request *request, keeptime_outcome *outcome);

/* Sends a request and returns at once, with a ticket to be freed by keeptime_ticket_free().
 * On an error `*ticket` becomes null.
 * Errors: FULL, SERVER_LOST, INVALID, NO_SERVER, REFUSED. */
int keeptime_submit(keeptime_client *client, keeptime_callback callback,
                    const keeptime_request *request, keeptime_ticket **ticket);

/* Looks whether a request has ended. As keeptime_wait(), but KEEPTIME_PENDING if it has not. */
int keeptime_poll(keeptime_client *client, keeptime_ticket *ticket, keeptime_outcome *outcome);

/* Waits until a request ended, at most `timeout_ns` (negative: for ever). OK if it was done.
 * `*outcome`, unless null, is filled in if the request ended, also if it FAILED; the caller sets
 * `outcome->size` before. May be called again for the same ticket, with the same result.
 * Errors: FAILED, TIMED_OUT (the ticket is still good), SERVER_LOST, INVALID. */
int keeptime_wait(keeptime_client *client, keeptime_ticket *ticket, int64_t timeout_ns,
                  keeptime_outcome *outcome);

/* Takes a request back. OK: it had not begun; waiting for it returns FAILED at once, with
 * KEEPTIME_STATUS_CANCELLED. KEEPTIME_TOO_LATE: it had begun or ended.
 * Errors: SERVER_LOST, FULL (no slot is left to ask with), INVALID. */
int keeptime_cancel(keeptime_client *client, keeptime_ticket *ticket);

/* Forgets a ticket. A request that has not ended goes on, and occupies its slot until it ends.
 * Null is allowed, and so is a ticket of a client that was closed. */
void keeptime_ticket_free(keeptime_ticket *ticket);

/* --------------------------------------------------------------------------------- errors */

/* The last error of a client in words, as UTF-8; with null the last one of this thread, of
 * whichever client. Never null; empty before the first error. Valid until the next error of the
 * same client, or of the same thread. */
const char *keeptime_last_error(const keeptime_client *client);

/* An enum keeptime_refusal if the last error of the client was KEEPTIME_REFUSED, otherwise 0;
 * with null that of this thread. */
int keeptime_last_refusal(const keeptime_client *client);

/* The name of a result, as in "KEEPTIME_FULL"; "unknown" for a number that is none. */
const char *keeptime_error_name(int error);

/* The name of an enum keeptime_status_code, as in "cancelled"; "unknown" for other numbers. */
const char *keeptime_status_name(uint32_t status);

#ifdef __cplusplus
} /* extern "C" */

/* ------------------------------------------------------------------------------------ C++ */
/*
 *     keeptime::Client client;
 *     auto add = client.callback(keeptime::Registration("vecadd").memory(12 * n));
 *     std::copy_n(numbers, 2 * n, add.data<float>());
 *     add.run(keeptime::Request({n}).input(0, 8 * n).output(8 * n, 4 * n));
 *     float first_sum = add.data<float>()[2 * n];
 *
 * Callbacks and tickets keep their client's connection alive, so they may be destroyed in any
 * order. The rules for threads above hold for a client together with all of its callbacks and
 * tickets, and for their destructors.
 */

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace keeptime {

/* Exception of every function below. */
class Error : public std::runtime_error {
public:
    Error(int code, int refusal, uint32_t status, const std::string &text)
        : std::runtime_error(text), code_(code), refusal_(refusal), status_(status) {}

    /* An enum keeptime_error. */
    int code() const noexcept { return code_; }
    /* An enum keeptime_refusal, if the code is KEEPTIME_REFUSED. */
    int refusal() const noexcept { return refusal_; }
    /* An enum keeptime_status_code, if the code is KEEPTIME_FAILED. */
    uint32_t status() const noexcept { return status_; }

private:
    int code_;
    int refusal_;
    uint32_t status_;
};

/* Status of a request that ended. */
using Outcome = keeptime_outcome;

/* The server's counters. */
using Counters = keeptime_counters;

/* Ways in which a client waits. */
enum class Wait { suspend = KEEPTIME_SUSPEND, spin = KEEPTIME_SPIN };

namespace detail {

using Handle = std::shared_ptr<keeptime_client>;

/* Passes on a result that is not negative. */
inline int check(int result, uint32_t status = 0) {
    if (result < 0) {
        /* The last error of this thread: that of the call which has just returned. */
        throw Error(result, keeptime_last_refusal(nullptr), status, keeptime_last_error(nullptr));
    }
    return result;
}

inline Outcome empty_outcome() {
    Outcome outcome = Outcome();
    outcome.size = sizeof outcome;
    return outcome;
}

inline int64_t nanoseconds(std::chrono::nanoseconds time) {
    /* Negative times mean "for ever" to the library, and "not at all" to std::chrono. */
    return std::max<int64_t>(0, time.count());
}

} // namespace detail

/* A registration: client.callback(Registration("matmul").chain("vision", 7).memory(4096)). */
class Registration {
public:
    explicit Registration(std::string service) : service_(std::move(service)) {}

    /* The chain that the callback belongs to, and its priority; larger is more critical. */
    Registration &chain(std::string name, uint32_t priority) {
        chain_ = std::move(name);
        priority_ = priority;
        return *this;
    }
    /* Bytes of memory that requests and results share. */
    Registration &memory(size_t bytes) {
        memory_bytes_ = bytes;
        return *this;
    }
    /* Longest time for which one request occupies the device. */
    Registration &exec(std::chrono::nanoseconds time) {
        exec_ns_ = static_cast<uint64_t>(detail::nanoseconds(time));
        return *this;
    }
    /* The accelerator, where several offer the service. */
    Registration &accelerator(std::string id) {
        accelerator_ = std::move(id);
        return *this;
    }
    /* The client's own number for the callback. */
    Registration &number(uint64_t number) {
        number_ = number;
        return *this;
    }

    /* Declares the chain: the least distance between two releases, and the deadline; zero stands
     * for the period. The server promises that the chain keeps it, or refuses. */
    Registration &period(std::chrono::nanoseconds period,
                         std::chrono::nanoseconds deadline = std::chrono::nanoseconds::zero()) {
        period_ns_ = static_cast<uint64_t>(detail::nanoseconds(period));
        deadline_ns_ = static_cast<uint64_t>(detail::nanoseconds(deadline));
        return *this;
    }
    /* Release jitter: largest delay of a job's release after its nominal release. */
    Registration &jitter(std::chrono::nanoseconds time) {
        jitter_ns_ = static_cast<uint64_t>(detail::nanoseconds(time));
        return *this;
    }
    /* Shortest time for which one request occupies the device. */
    Registration &exec_min(std::chrono::nanoseconds time) {
        exec_min_ns_ = static_cast<uint64_t>(detail::nanoseconds(time));
        return *this;
    }
    /* Processor time of the callback, at most and at least. */
    Registration &cpu(std::chrono::nanoseconds most,
                      std::chrono::nanoseconds least = std::chrono::nanoseconds::zero()) {
        cpu_ns_ = static_cast<uint64_t>(detail::nanoseconds(most));
        cpu_min_ns_ = static_cast<uint64_t>(detail::nanoseconds(least));
        return *this;
    }
    /* Position of the callback in the chain, from 0. */
    Registration &position(uint32_t position) {
        position_ = position;
        return *this;
    }
    /* Requests that one job of the chain sends by this registration. */
    Registration &requests(uint32_t count) {
        requests_ = count;
        return *this;
    }
    /* The core and the SCHED_FIFO priority of the thread that runs the callback. */
    Registration &executor(uint32_t core, uint32_t priority) {
        core_ = core;
        process_priority_ = priority;
        flags_ |= static_cast<uint32_t>(KEEPTIME_EXECUTOR);
        return *this;
    }
    /* Way in which the chain waits; Client::set_wait() makes it so. */
    Registration &wait(Wait mode) {
        wait_mode_ = static_cast<uint32_t>(mode);
        return *this;
    }
    /* The chain's own deadline does not count. */
    Registration &best_effort() {
        flags_ |= static_cast<uint32_t>(KEEPTIME_BEST_EFFORT);
        return *this;
    }

    /* For keeptime_register(); valid while this object lives and is not changed. */
    keeptime_registration view() const noexcept {
        keeptime_registration view = keeptime_registration();
        view.size = sizeof view;
        view.service = service_.c_str();
        view.chain = chain_.empty() ? nullptr : chain_.c_str();
        view.accelerator = accelerator_.empty() ? nullptr : accelerator_.c_str();
        view.memory_bytes = memory_bytes_;
        view.exec_ns = exec_ns_;
        view.callback = number_;
        view.priority = priority_;
        view.exec_min_ns = exec_min_ns_;
        view.period_ns = period_ns_;
        view.deadline_ns = deadline_ns_;
        view.jitter_ns = jitter_ns_;
        view.cpu_ns = cpu_ns_;
        view.cpu_min_ns = cpu_min_ns_;
        view.position = position_;
        view.requests = requests_;
        view.core = core_;
        view.process_priority = process_priority_;
        view.wait_mode = wait_mode_;
        view.flags = flags_;
        return view;
    }

private:
    std::string service_;
    std::string chain_;
    std::string accelerator_;
    size_t memory_bytes_ = 0;
    uint64_t exec_ns_ = 0;
    uint64_t number_ = 0;
    uint64_t exec_min_ns_ = 0;
    uint64_t period_ns_ = 0;
    uint64_t deadline_ns_ = 0;
    uint64_t jitter_ns_ = 0;
    uint64_t cpu_ns_ = 0;
    uint64_t cpu_min_ns_ = 0;
    uint32_t priority_ = 0;
    uint32_t position_ = 0;
    uint32_t requests_ = 1;
    uint32_t core_ = 0;
    uint32_t process_priority_ = 0;
    uint32_t wait_mode_ = KEEPTIME_SUSPEND;
    uint32_t flags_ = 0;
};

/* A request: Request({n}).input(0, 8 * n).output(8 * n, 4 * n). */
class Request {
public:
    Request() { view_.size = sizeof view_; }

    /* With up to four arguments; throws std::length_error if there are more. */
    explicit Request(std::initializer_list<uint64_t> arguments) : Request() {
        if (arguments.size() > 4) {
            throw std::length_error("a request has at most 4 arguments");
        }
        std::copy(arguments.begin(), arguments.end(), view_.arguments);
    }

    /* The input's range of the callback's memory, in bytes. */
    Request &input(size_t offset, size_t length) noexcept {
        view_.input_offset = offset;
        view_.input_length = length;
        return *this;
    }
    /* The output's range of the callback's memory, in bytes. */
    Request &output(size_t offset, size_t length) noexcept {
        view_.output_offset = offset;
        view_.output_length = length;
        return *this;
    }

    const keeptime_request &view() const noexcept { return view_; }

private:
    keeptime_request view_ = keeptime_request();
};

/* An outstanding request. Destroying it forgets the request, which goes on. */
class Ticket {
public:
    /* Waits until the request is done. */
    Outcome wait() { return *wait_ns(-1); }

    /* Waits until the request is done, at most for `time`; empty when the time was too short. */
    std::optional<Outcome> wait_for(std::chrono::nanoseconds time) {
        return wait_ns(detail::nanoseconds(time));
    }

    /* The outcome, if the request is done. */
    std::optional<Outcome> poll() {
        Outcome outcome = detail::empty_outcome();
        int result = keeptime_poll(client_.get(), ticket_.get(), &outcome);
        if (detail::check(result, outcome.status) == KEEPTIME_PENDING) {
            return std::nullopt;
        }
        return outcome;
    }

    /* Takes the request back; false when it had begun or ended. */
    bool cancel() {
        int result = keeptime_cancel(client_.get(), ticket_.get());
        return detail::check(result) == KEEPTIME_OK;
    }

private:
    friend class Callback;

    struct Free {
        void operator()(keeptime_ticket *ticket) const noexcept { keeptime_ticket_free(ticket); }
    };

    Ticket(detail::Handle client, keeptime_ticket *ticket)
        : client_(std::move(client)), ticket_(ticket) {}

    std::optional<Outcome> wait_ns(int64_t timeout_ns) {
        Outcome outcome = detail::empty_outcome();
        int result = keeptime_wait(client_.get(), ticket_.get(), timeout_ns, &outcome);
        if (result == KEEPTIME_TIMED_OUT) {
            return std::nullopt;
        }
        detail::check(result, outcome.status);
        return outcome;
    }

    detail::Handle client_;
    std::unique_ptr<keeptime_ticket, Free> ticket_;
};

/* A registered callback. Destroying it ends the registration. */
class Callback {
public:
    Callback(Callback &&other) noexcept
        : client_(std::move(other.client_)), callback_(std::exchange(other.callback_, 0)) {}
    Callback &operator=(Callback &&other) noexcept {
        std::swap(client_, other.client_);
        std::swap(callback_, other.callback_);
        return *this;
    }
    Callback(const Callback &) = delete;
    Callback &operator=(const Callback &) = delete;
    ~Callback() {
        if (callback_ != 0) {
            keeptime_deregister(client_.get(), callback_);
        }
    }

    /* The memory of the callback; null if it has none. See keeptime_memory(). */
    template <typename T> T *data() const {
        return static_cast<T *>(keeptime_memory(client_.get(), callback_, nullptr));
    }
    /* Number of T that the memory holds. */
    template <typename T> size_t count() const {
        size_t size = 0;
        keeptime_memory(client_.get(), callback_, &size);
        return size / sizeof(T);
    }

    /* Sends a request and waits until it is done. */
    Outcome run(const Request &request) {
        Outcome outcome = detail::empty_outcome();
        int result = keeptime_run(client_.get(), callback_, &request.view(), &outcome);
        detail::check(result, outcome.status);
        return outcome;
    }

    /* Sends a request and returns at once. */
    Ticket submit(const Request &request) {
        keeptime_ticket *ticket = nullptr;
        int result = keeptime_submit(client_.get(), callback_, &request.view(), &ticket);
        detail::check(result);
        return Ticket(client_, ticket);
    }

    /* Gives the chain another priority, for requests sent from now on. */
    void reprioritise(uint32_t priority) {
        detail::check(keeptime_reprioritise(client_.get(), callback_, priority));
    }

    /* The bucket into which the server put the callback. */
    uint32_t bucket() const {
        uint32_t bucket = 0;
        detail::check(keeptime_bucket(client_.get(), callback_, &bucket));
        return bucket;
    }

    /* The number for the C functions. */
    keeptime_callback get() const noexcept { return callback_; }

private:
    friend class Client;

    Callback(detail::Handle client, keeptime_callback callback)
        : client_(std::move(client)), callback_(callback) {}

    detail::Handle client_;
    keeptime_callback callback_;
};

/* A connection to a server. */
class Client {
public:
    /* Connects to the server at the default socket, see keeptime_connect(). */
    Client() : Client(nullptr) {}

    /* Connects to the server at `socket_path`. */
    explicit Client(const char *socket_path) {
        keeptime_client *client = nullptr;
        detail::check(keeptime_connect(socket_path, &client));
        client_ = detail::Handle(client, keeptime_close);
    }
    explicit Client(const std::string &socket_path) : Client(socket_path.c_str()) {}

    /* Connects to a server that is root's or that of `user`, see keeptime_connect_to(). */
    Client(const char *socket_path, std::uint32_t user) {
        keeptime_client *client = nullptr;
        detail::check(keeptime_connect_to(socket_path, user, &client));
        client_ = detail::Handle(client, keeptime_close);
    }

    /* A client is a connection: it can be handed on, and is not copied. */
    Client(Client &&) noexcept = default;
    Client &operator=(Client &&) noexcept = default;
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    /* Registers a callback. */
    Callback callback(const Registration &registration) {
        keeptime_registration view = registration.view();
        keeptime_callback callback = 0;
        detail::check(keeptime_register(client_.get(), &view, &callback));
        return Callback(client_, callback);
    }

    /* Chooses how this client waits from now on. */
    void set_wait(Wait wait) {
        detail::check(keeptime_set_wait(client_.get(), static_cast<int>(wait)));
    }

    /* The server's counters. */
    Counters status() {
        Counters counters = Counters();
        counters.size = sizeof counters;
        detail::check(keeptime_status(client_.get(), &counters));
        return counters;
    }

    /* Connects again, tries for at most `patience`, and registers all callbacks anew. */
    void reconnect(std::chrono::nanoseconds patience) {
        int64_t patience_ns = detail::nanoseconds(patience);
        detail::check(keeptime_reconnect(client_.get(), patience_ns));
    }

    /* The client for the C functions; it stays the property of this object. */
    keeptime_client *get() const noexcept { return client_.get(); }

private:
    detail::Handle client_;
};

} // namespace keeptime
#endif /* __cplusplus */

#endif /* KEEPTIME_H */
