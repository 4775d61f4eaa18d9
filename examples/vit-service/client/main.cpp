/*
 * How long an inference takes: through Keeptime's server, or by the same graph in this process.
 *
 *     client --server SOCKET --input input.bin --expected expected.bin
 *     client --direct libvit.so --configuration vit.ts --input input.bin --expected expected.bin
 *
 * Both ways are measured by the same loop: the clock is read before a request and when its output
 * is there. The input is written once, into memory that the GPU copies from. Before each block the
 * output is overwritten, after it it is compared. Exit status: 1 if an output was wrong, 2 if
 * something else went wrong.
 */
#include "options.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

namespace {

std::vector<char> read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    if (!file.good() && !file.eof())
        throw std::runtime_error(path + ": it cannot be read");
    if (bytes.empty())
        throw std::runtime_error(path + ": it is empty");
    return bytes;
}

void set_up_thread(const Options &options) {
    if (options.core) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(*options.core, &cores);
        if (sched_setaffinity(0, sizeof cores, &cores) != 0)
            throw std::runtime_error("--core " + std::to_string(*options.core) + ": " +
                                     std::strerror(errno));
    }
    if (options.fifo) {
        sched_param priority{};
        priority.sched_priority = *options.fifo;
        if (sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
            throw std::runtime_error("--fifo " + std::to_string(*options.fifo) + ": " +
                                     std::strerror(errno));
    }
}

void sleep_until(int64_t ns) {
    timespec time{ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
    }
}

double us(int64_t ns) {
    return static_cast<double>(ns) / 1000;
}

/* Smallest number that this part of the sorted ones does not exceed. */
int64_t quantile(const std::vector<int64_t> &sorted, double part) {
    auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(rank, 1) - 1];
}

/* As JSON has it, which has no number for what is none. */
std::string json(double number) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", number);
    return std::isfinite(number) ? text : "null";
}

class Client {
public:
    explicit Client(const Options &options)
        : options_(options), input_(read(options.input)), expected_(read(options.expected)) {
        if (expected_.size() % bytes_of(options.type) != 0)
            throw std::runtime_error(options.expected + ": no whole number of numbers");
        Request request{options.arguments, input_.size(), expected_.size(), options.spins};
        if (options.server) {
            const char *socket = options.server->empty() ? nullptr : options.server->c_str();
            way_ = through_server(socket, options.service, options.priority, request);
        } else {
            way_ = directly(*options.direct, options.configuration, options.gpu, request);
        }
        std::memcpy(way_->input(), input_.data(), input_.size());
        if (!options.csv.empty()) {
            csv_.open(options.csv);
            csv_ << "block,period_us,request,begin_ns,took_ns,arrived_ns,started_ns,finished_ns,"
                    "answered_ns\n";
            if (!csv_)
                throw std::runtime_error(options.csv + ": it cannot be written");
        }
    }

    /* The first requests: without a graph, with its capture, then with it. */
    void warm_up() {
        forget();
        std::vector<int64_t> took;
        for (int i = 0; i < options_.warm_up; i++) {
            Times times = way_->run();
            took.push_back(times.end - times.begin);
        }
        Answer answer = check();
        std::vector<int64_t> rest(took.begin() + 2, took.end());
        std::sort(rest.begin(), rest.end());
        std::fprintf(stderr,
                     "%s: warm-up: %.1f us, %.1f us (the capture), then %.1f us at the median of "
                     "%zu; output: largest difference %.3g of %.3g, cosine %.6f\n",
                     name(), us(took[0]), us(took[1]), us(quantile(rest, 0.5)), rest.size(),
                     answer.difference, answer.largest, answer.cosine);
    }

    /* Measures one block, and says what came out. */
    void measure(const Block &block) {
        forget();
        std::vector<Times> all;
        all.reserve(static_cast<std::size_t>(block.count));
        int64_t period_ns = block.period_us * 1000, next = now_ns();
        for (int i = 0; i < block.count; i++) {
            if (period_ns > 0) {
                next = std::max(next + period_ns, now_ns());
                sleep_until(next);
            }
            all.push_back(way_->run());
        }
        Answer answer = check();
        write(block, all);
        say(block, all, answer);
        blocks_++;
    }

    bool was_right() const { return right_; }

private:
    const char *name() const { return options_.server ? "server" : "direct"; }

    /* No output of a request before may be taken for the one of a request to come. */
    void forget() { std::memset(way_->output(), 0xff, expected_.size()); }

    Answer check() {
        Answer answer(numbers(options_.type, way_->output(), expected_.size()),
                      numbers(options_.type, expected_.data(), expected_.size()));
        if (!answer.is_right(options_.tolerance)) {
            right_ = false;
            std::fprintf(stderr, "%s: the output is wrong: largest difference %g, allowed %g\n",
                         name(), answer.difference, options_.tolerance * answer.largest);
        }
        return answer;
    }

    void write(const Block &block, const std::vector<Times> &all) {
        if (!csv_.is_open())
            return;
        for (std::size_t i = 0; i < all.size(); i++) {
            const Times &times = all[i];
            csv_ << blocks_ << ',' << block.period_us << ',' << i << ',' << times.begin << ','
                 << times.end - times.begin;
            for (int64_t step : {times.arrived, times.started, times.finished, times.answered}) {
                csv_ << ',';
                if (step != 0)
                    csv_ << step - times.begin;
            }
            csv_ << '\n';
        }
        if (!csv_.flush())
            throw std::runtime_error(options_.csv + ": it cannot be written");
    }

    void say(const Block &block, const std::vector<Times> &all, const Answer &answer) const {
        std::vector<int64_t> took;
        for (const Times &times : all)
            took.push_back(times.end - times.begin);
        std::sort(took.begin(), took.end());
        double p50 = us(quantile(took, 0.5)), p99 = us(quantile(took, 0.99)), max = us(took.back());
        const char *wait = options_.spins ? "spin" : "sleep";
        if (options_.json)
            std::printf("{\"way\": \"%s\", \"wait\": \"%s\", \"period_us\": %lld, \"count\": %zu, "
                        "\"p50_us\": %.3f, \"p99_us\": %.3f, \"max_us\": %.3f, "
                        "\"difference\": %s, \"cosine\": %s, \"right\": %s}\n",
                        name(), wait, static_cast<long long>(block.period_us), took.size(), p50,
                        p99, max, json(answer.difference).c_str(), json(answer.cosine).c_str(),
                        answer.is_right(options_.tolerance) ? "true" : "false");
        else
            std::printf("%s, %s, period %lld us, %zu requests: p50 %.1f us, p99 %.1f us, "
                        "max %.1f us\n",
                        name(), wait, static_cast<long long>(block.period_us), took.size(), p50,
                        p99, max);
        std::fflush(stdout);
    }

    Options options_;
    std::vector<char> input_, expected_;
    std::unique_ptr<Way> way_;
    std::ofstream csv_;
    int blocks_ = 0;
    bool right_ = true;
};

} // namespace

int main(int count, char **words) {
    try {
        Options options = parse(count, words);
        Client client(options);
        set_up_thread(options);
        client.warm_up();
        if (options.takes_turns) {
            for (std::string line; std::getline(std::cin, line);)
                client.measure(Block::parse(line));
        } else {
            for (const Block &block : options.blocks)
                client.measure(block);
        }
        return client.was_right() ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "client: %s\n", error.what());
        return 2;
    }
}
