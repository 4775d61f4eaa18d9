#include "options.h"

#include <getopt.h>
#include <sched.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace {

const char *HELP =
    "Sends requests to a service of a GPU, one way or the other, and says how long they take.\n"
    "\n"
    "  --server SOCKET       through the server; an empty SOCKET is the default one\n"
    "  --service NAME        what to ask it for (vit)\n"
    "  --priority N          of the chain (10)\n"
    "  --direct LIBRARY      in this process, by the service's library\n"
    "  --configuration TEXT  what the library is opened with\n"
    "  --gpu N               which GPU (0)\n"
    "\n"
    "  --input FILE          the input of each request\n"
    "  --expected FILE       the right output\n"
    "  --type TYPE           of its numbers: float16 (default), bfloat16, float32\n"
    "  --tolerance X         as a part of the largest number (0.02)\n"
    "  --arguments A,B,C,D   of a request (0,0,0,0)\n"
    "\n"
    "  --wait spin|sleep     what the one that waits for an answer does (spin)\n"
    "  --warm-up N           requests before the first block, at least 3 (100)\n"
    "  --block PERIOD_US:N   N requests with a period, or without: 0:N; may be repeated\n"
    "                        (5000:1000 and 0:1000)\n"
    "  --turns               blocks from standard input instead, one on a line\n"
    "  --core N              stay on this core\n"
    "  --fifo N              SCHED_FIFO with this priority\n"
    "  --csv FILE            write all samples\n"
    "  --json                print a line of JSON for each block\n";

/* What is wrong with the command line. */
[[noreturn]] void wrong(const std::string &what) {
    throw std::invalid_argument(what);
}

uint64_t number(const std::string &name, const std::string &text, uint64_t least, uint64_t most) {
    char *end = nullptr;
    errno = 0;
    unsigned long long value = std::strtoull(text.c_str(), &end, 10);
    bool whole = !text.empty() && text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
    if (!whole || value < least || value > most)
        wrong(name + ": found \"" + text + "\", expected a whole number from " +
              std::to_string(least) + " to " + std::to_string(most));
    return value;
}

double part(const std::string &name, const std::string &text) {
    char *end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0 || !(value > 0 && value <= 1))
        wrong(name + ": found \"" + text + "\", expected a number above 0, at most 1");
    return value;
}

/* The place of a word among those that are allowed. */
std::size_t one_of(const std::string &name, const std::string &text,
                   const std::vector<std::string> &words) {
    std::string all;
    for (std::size_t i = 0; i < words.size(); i++) {
        if (text == words[i])
            return i;
        all += (i == 0 ? "" : ", ") + words[i];
    }
    wrong(name + ": found \"" + text + "\", expected one of " + all);
}

std::array<uint64_t, 4> arguments(const std::string &text) {
    std::array<uint64_t, 4> found{};
    std::istringstream words(text);
    std::size_t count = 0;
    for (std::string word; std::getline(words, word, ',');) {
        if (count == found.size())
            wrong("--arguments: found \"" + text + "\", expected at most 4 numbers");
        found[count++] = number("--arguments", word, 0, std::numeric_limits<uint64_t>::max());
    }
    return found;
}

void check(const Options &options) {
    if (options.server.has_value() == options.direct.has_value())
        wrong("expected either --server or --direct");
    if (options.input.empty() || options.expected.empty())
        wrong("expected --input and --expected");
}

} // namespace

Block Block::parse(const std::string &text) {
    std::size_t colon = text.find(':');
    if (colon == std::string::npos)
        wrong("a block: found \"" + text + "\", expected PERIOD_US:COUNT");
    Block block;
    block.period_us =
        static_cast<int64_t>(number("a block's period", text.substr(0, colon), 0, 10000000));
    block.count = static_cast<int>(number("a block's count", text.substr(colon + 1), 1, 10000000));
    return block;
}

Options parse(int count, char **words) {
    static const char *const names[] = {
        "server", "service", "priority", "direct", "configuration", "gpu", "input", "expected",
        "type", "tolerance", "arguments", "wait", "warm-up", "block", "core", "fifo", "csv"};
    std::vector<option> known;
    for (const char *name : names)
        known.push_back({name, required_argument, nullptr, 'o'});
    known.push_back({"turns", no_argument, nullptr, 't'});
    known.push_back({"json", no_argument, nullptr, 'j'});
    known.push_back({"help", no_argument, nullptr, 'h'});
    known.push_back({nullptr, 0, nullptr, 0});

    Options options;
    int at = 0;
    for (int found; (found = getopt_long(count, words, "", known.data(), &at)) != -1;) {
        if (found == 'h') {
            std::fputs(HELP, stdout);
            std::exit(0);
        }
        if (found == '?')
            wrong("--help lists the options");
        options.takes_turns = options.takes_turns || found == 't';
        options.json = options.json || found == 'j';
        if (found != 'o')
            continue;
        std::string name = known[static_cast<std::size_t>(at)].name, value = optarg;
        std::string option = "--" + name;
        constexpr int most = std::numeric_limits<int>::max();
        auto small = [&](int least, int greatest) {
            return static_cast<int>(number(option, value, static_cast<uint64_t>(least),
                                           static_cast<uint64_t>(greatest)));
        };
        if (name == "server")
            options.server = value;
        else if (name == "service")
            options.service = value;
        else if (name == "priority")
            options.priority = static_cast<uint32_t>(small(0, most));
        else if (name == "direct")
            options.direct = value;
        else if (name == "configuration")
            options.configuration = value;
        else if (name == "gpu")
            options.gpu = small(0, 127);
        else if (name == "input")
            options.input = value;
        else if (name == "expected")
            options.expected = value;
        else if (name == "type")
            options.type = static_cast<Type>(
                one_of(option, value, {"float16", "bfloat16", "float32"}));
        else if (name == "tolerance")
            options.tolerance = part(option, value);
        else if (name == "arguments")
            options.arguments = ::arguments(value);
        else if (name == "wait")
            options.spins = one_of(option, value, {"spin", "sleep"}) == 0;
        else if (name == "warm-up")
            options.warm_up = small(3, most);
        else if (name == "block")
            options.blocks.push_back(Block::parse(value));
        else if (name == "core")
            options.core = small(0, CPU_SETSIZE - 1);
        else if (name == "fifo")
            options.fifo = small(1, 99);
        else
            options.csv = value;
    }
    if (optind != count)
        wrong(std::string("found \"") + words[optind] + "\", expected options only");
    if (options.blocks.empty())
        options.blocks = {{5000, 1000}, {0, 1000}};
    check(options);
    return options;
}
