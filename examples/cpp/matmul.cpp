/*
 * matmul: multiplies two matrices on the accelerator, in five lines, and checks the product.
 *
 *     cargo build --release -p keeptime-accel-c
 *     c++ -std=c++17 -Icrates/serve/accel-c/include examples/cpp/matmul.cpp \
 *         -Ltarget/release -lkeeptime -Wl,-rpath,$PWD/target/release -o matmul
 *     ./matmul
 *
 * It finds the server at $KEEPTIME_SOCKET, or at the default socket.
 */
#include <keeptime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <vector>

namespace {

constexpr std::size_t n = 64;
constexpr std::size_t bytes = n * n * sizeof(float);

// Small integers, so that the products are exact. A comes first, then B.
std::vector<float> two_matrices() {
    std::vector<float> numbers(2 * n * n);
    std::uint32_t state = 1;
    for (float &number : numbers) {
        state = state * 1664525 + 1013904223;
        number = static_cast<float>(state >> 29) - 4.0f;
    }
    return numbers;
}

float expected(const std::vector<float> &ab, std::size_t row, std::size_t column) {
    float sum = 0.0f;
    for (std::size_t k = 0; k < n; k++) {
        sum += ab[row * n + k] * ab[n * n + k * n + column];
    }
    return sum;
}

std::vector<float> multiply_on_accelerator(const std::vector<float> &ab) {
    // Connect, register with memory for A, B and C, write A and B, run, read C.
    keeptime::Client client;
    auto multiply = client.callback(keeptime::Registration("matmul").memory(3 * bytes));
    std::copy(ab.begin(), ab.end(), multiply.data<float>());
    multiply.run(keeptime::Request({n}).input(0, 2 * bytes).output(2 * bytes, bytes));
    return {multiply.data<float>() + 2 * n * n, multiply.data<float>() + 3 * n * n};
}

// The same for a chain that is declared, so that the server promises its deadline or refuses it,
// with a ticket, so that this thread could do something else meanwhile.
std::vector<float> multiply_later(const std::vector<float> &ab) {
    keeptime::Client client;
    client.set_wait(keeptime::Wait::spin);
    auto what = keeptime::Registration("matmul").chain("vision", 7).memory(3 * bytes);
    what.period(std::chrono::seconds(1)).exec(std::chrono::milliseconds(50));
    what.executor(0, 0).wait(keeptime::Wait::spin);
    auto multiply = client.callback(what);
    std::copy(ab.begin(), ab.end(), multiply.data<float>());
    auto request = keeptime::Request({n}).input(0, 2 * bytes).output(2 * bytes, bytes);
    auto ticket = multiply.submit(request);
    while (!ticket.wait_for(std::chrono::milliseconds(10))) {
        std::cerr << "still waiting\n";
    }
    const float *c = multiply.data<float>() + 2 * n * n;
    return {c, c + n * n};
}

bool is_right(const char *way, const std::vector<float> &ab, const std::vector<float> &c) {
    for (std::size_t row = 0; row < n; row++) {
        for (std::size_t column = 0; column < n; column++) {
            if (c[row * n + column] != expected(ab, row, column)) {
                std::cerr << way << ": element " << row << ", " << column << " is wrong\n";
                return false;
            }
        }
    }
    std::cout << way << ": all " << n * n << " elements are right\n";
    return true;
}

// An unknown service is an exception that says why.
bool is_refused() {
    try {
        keeptime::Client client;
        client.callback(keeptime::Registration("no such service"));
        return false;
    } catch (const keeptime::Error &error) {
        std::cerr << error.what() << '\n';
        std::cout << "unknown service: " << keeptime_error_name(error.code()) << '\n';
        return error.refusal() == KEEPTIME_REFUSAL_UNKNOWN;
    }
}

} // namespace

int main() {
    try {
        const std::vector<float> ab = two_matrices();
        const bool run = is_right("run", ab, multiply_on_accelerator(ab));
        const bool later = is_right("submit", ab, multiply_later(ab));
        return run && later && is_refused() ? 0 : 1;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
