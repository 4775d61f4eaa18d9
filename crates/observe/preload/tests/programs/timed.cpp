// A mutex with waits by the monotonic clock: one in vain, one that ends when the mutex is let go, and
// one for which it is free.
#include <chrono>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

static std::timed_mutex mutex;

static void try_for(const char *when, std::chrono::milliseconds time) {
    auto begin = std::chrono::steady_clock::now();
    bool taken = mutex.try_lock_for(time);
    bool is_early = !taken && std::chrono::steady_clock::now() - begin < time;
    std::printf("%s: %s\n", when, taken ? "taken" : is_early ? "failed at once" : "timed out");
    if (taken)
        mutex.unlock();
}

int main() {
    std::promise<void> held, go;
    std::thread holder([&] {
        mutex.lock();
        held.set_value();
        go.get_future().wait();
        // The other thread waits by now, or will find the mutex free.
        std::this_thread::sleep_for(20ms);
        mutex.unlock();
    });
    held.get_future().wait();
    try_for("in vain", 250ms);
    go.set_value();
    try_for("in time", 100s);
    holder.join();
    try_for("free", 1ms);
    return 0;
}
