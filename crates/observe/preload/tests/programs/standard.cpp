// Every lock of C++'s standard library, used by several threads; exceptions through call_once.
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <latch>
#include <mutex>
#include <queue>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr int THREADS = 4, ROUNDS = 150;

// Runs a body in some threads at once.
template <typename Body> void together(Body body) {
    std::vector<std::jthread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back([&body, i] { body(i); });
}

// Adds up under a lock that is taken and released by the two given functions.
template <typename Take, typename Release> void sums(const char *name, Take take, Release release) {
    long sum = 0;
    together([&](int) {
        for (int round = 0; round < ROUNDS; round++) {
            take();
            sum += round;
            release();
        }
    });
    std::printf("%s: %ld\n", name, sum);
}

template <typename Mutex> void exclusive(const char *name) {
    Mutex mutex;
    sums(name, [&] { mutex.lock(); }, [&] { mutex.unlock(); });
    sums(name, [&] { while (!mutex.try_lock()) std::this_thread::yield(); }, [&] { mutex.unlock(); });
}

template <typename Mutex> void timed(const char *name) {
    exclusive<Mutex>(name);
    Mutex mutex;
    sums(name, [&] { while (!mutex.try_lock_for(1h)) {} }, [&] { mutex.unlock(); });
    sums(name, [&] { while (!mutex.try_lock_until(std::chrono::system_clock::now() + 1h)) {} },
         [&] { mutex.unlock(); });
    std::scoped_lock lock(mutex);
    std::jthread([&] { std::printf("%s, too late: %d\n", name, mutex.try_lock_for(10ms)); });
    std::jthread([&] { std::printf("%s, past: %d\n", name, mutex.try_lock_for(-1s)); });
}

template <typename Mutex> void shared(const char *name) {
    Mutex mutex;
    long value = 0;
    std::atomic<long> seen = 0;
    together([&](int thread) {
        for (int round = 0; round < ROUNDS; round++) {
            if (thread == 0) {
                std::unique_lock lock(mutex);
                value += 2;
            } else {
                std::shared_lock lock(mutex);
                seen += value % 2;
            }
        }
    });
    std::printf("%s: %ld, odd %ld, ", name, value, seen.load());
    std::shared_lock lock(mutex);
    std::jthread([&] { std::printf("%d", mutex.try_lock()); }).join();
    std::jthread([&] {
        bool read = mutex.try_lock_shared();
        std::printf("%d\n", read);
        if (read)
            mutex.unlock_shared();
    });
}

void shared_timed() {
    std::shared_timed_mutex mutex;
    shared<std::shared_timed_mutex>("shared_timed_mutex");
    mutex.lock();
    std::jthread([&] {
        std::printf("shared, too late: %d\n", mutex.try_lock_shared_for(10ms));
        std::printf("exclusive, too late: %d\n", mutex.try_lock_for(10ms));
        auto soon = std::chrono::system_clock::now() + 10ms;
        std::printf("shared, too late: %d\n", mutex.try_lock_shared_until(soon));
    });
    mutex.unlock();
    std::printf("in time: %d\n", mutex.try_lock_shared_for(1h));
    mutex.unlock_shared();
}

// A queue between threads.
template <typename Condition, typename Mutex> void queue(const char *name) {
    Mutex mutex;
    Condition condition;
    std::queue<int> items;
    long sum = 0;
    auto take = [&](auto wait) {
        std::unique_lock lock(mutex);
        while (items.empty())
            wait(lock);
        int item = items.front();
        items.pop();
        sum += item;
        return item >= 0;
    };
    {
        std::vector<std::jthread> takers;
        takers.emplace_back([&] { while (take([&](auto &lock) { condition.wait(lock); })) {} });
        takers.emplace_back([&] { while (take([&](auto &lock) { condition.wait_for(lock, 1h); })) {} });
        takers.emplace_back([&] {
            while (take([&](auto &lock) {
                condition.wait_until(lock, std::chrono::system_clock::now() + 1h);
            })) {}
        });
        for (int i = 0; i < ROUNDS; i++) {
            { std::scoped_lock lock(mutex); items.push(i); }
            condition.notify_one();
        }
        { std::scoped_lock lock(mutex); for (int i = 0; i < 3; i++) items.push(-1); }
        condition.notify_all();
    }
    std::unique_lock lock(mutex);
    bool late = condition.wait_for(lock, 5ms) == std::cv_status::timeout;
    std::printf("%s: %ld, late %d\n", name, sum, late);
}

// An exception leaves the flag as it was: the next one tries.
void call_once() {
    std::once_flag flag;
    std::atomic<int> thrown = 0, caught = 0, ran = 0;
    together([&](int) {
        for (int round = 0; round < 3; round++) {
            try {
                std::call_once(flag, [&] {
                    if (thrown++ < 5)
                        throw std::runtime_error("not yet");
                    ran++;
                });
            } catch (const std::runtime_error &error) {
                caught += std::string(error.what()) == "not yet";
            }
        }
    });
    std::printf("call_once: thrown %d, caught %d, ran %d\n", thrown.load() - 1, caught.load(),
                ran.load());
}

// These do not go through the C library's locks.
void by_futex() {
    std::latch latch(THREADS);
    std::barrier barrier(THREADS);
    std::counting_semaphore<2> semaphore(2);
    std::atomic<int> inside = 0, most = 0, flag = 0;
    std::jthread waker([&] { latch.wait(); flag = 1; flag.notify_all(); });
    together([&](int) {
        latch.arrive_and_wait();
        flag.wait(0);
        for (int round = 0; round < 20; round++) {
            barrier.arrive_and_wait();
            semaphore.acquire();
            int now = ++inside, seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now)) {}
            inside--;
            semaphore.release();
        }
    });
    std::printf("semaphore: at most %s inside\n", most <= 2 ? "two" : "too many");
    std::printf("late: %d\n", std::binary_semaphore(0).try_acquire_for(5ms));
}

// A destructor runs while an exception passes a wait; deadlocks of several locks are avoided.
void unwinding() {
    std::mutex first, second;
    long sum = 0;
    together([&](int thread) {
        for (int round = 0; round < ROUNDS; round++) {
            try {
                if (thread % 2) {
                    std::scoped_lock lock(first, second);
                    sum++;
                    throw round;
                }
                std::scoped_lock lock(second, first);
                sum++;
            } catch (int) {
            }
        }
    });
    std::printf("scoped_lock: %ld\n", sum);
    try {
        std::mutex mutex;
        std::unique_lock lock(mutex);
        lock.lock();
    } catch (const std::system_error &error) {
        std::printf("locked twice: %d\n", error.code() == std::errc::resource_deadlock_would_occur);
    }
}

void stops() {
    std::condition_variable_any condition;
    std::mutex mutex;
    bool stopped = false;
    std::jthread([&](std::stop_token token) {
        std::unique_lock lock(mutex);
        stopped = !condition.wait(lock, token, [] { return false; });
    });
    std::printf("stopped: %d\n", stopped);
}

} // namespace

int main() {
    exclusive<std::mutex>("mutex");
    exclusive<std::recursive_mutex>("recursive_mutex");
    timed<std::timed_mutex>("timed_mutex");
    timed<std::recursive_timed_mutex>("recursive_timed_mutex");
    shared<std::shared_mutex>("shared_mutex");
    shared_timed();
    queue<std::condition_variable, std::mutex>("condition_variable");
    queue<std::condition_variable_any, std::timed_mutex>("condition_variable_any");
    call_once();
    by_futex();
    unwinding();
    stops();
}
