/* What the client is asked to do. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "answer.h"
#include "way.h"

#include <optional>
#include <string>
#include <vector>

/* Requests one after the other: with a period, or each as soon as the last one is answered. */
struct Block {
    int64_t period_us = 0;
    int count = 0;

    /* From PERIOD_US:COUNT; period 0 for none. Throws std::invalid_argument. */
    static Block parse(const std::string &text);
};

struct Options {
    std::optional<std::string> server, direct;
    std::string service = "vit", configuration;
    int gpu = 0;
    uint32_t priority = 10;
    std::array<uint64_t, 4> arguments{};
    std::string input, expected;
    Type type = Type::float16;
    double tolerance = 0.02;
    bool spins = true;
    int warm_up = 100;
    std::vector<Block> blocks;
    bool takes_turns = false;
    std::optional<int> core, fifo;
    std::string csv;
    bool json = false;
};

/* Reads the command line. Throws std::invalid_argument with what is wrong; ends the program if
 * it asks for help. */
Options parse(int count, char **words);

#endif
