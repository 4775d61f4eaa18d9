/* Whether an output is right. */
#ifndef ANSWER_H
#define ANSWER_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

/* A number format of networks. */
enum class Type { float16, bfloat16, float32 };

inline std::size_t bytes_of(Type type) {
    return type == Type::float32 ? 4 : 2;
}

/* From the bits of IEEE 754's binary16. */
inline double from_float16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0    ? std::ldexp(fraction, -24)
                  : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                   : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 != 0 ? -size : size;
}

inline std::vector<double> numbers(Type type, const void *memory, std::size_t bytes) {
    std::vector<double> numbers(bytes / bytes_of(type));
    for (std::size_t i = 0; i < numbers.size(); i++) {
        const char *from = static_cast<const char *>(memory) + i * bytes_of(type);
        uint32_t bits = 0;
        std::memcpy(&bits, from, bytes_of(type));
        if (type == Type::float16) {
            numbers[i] = from_float16(static_cast<uint16_t>(bits));
            continue;
        }
        bits = type == Type::bfloat16 ? bits << 16 : bits;
        float number;
        std::memcpy(&number, &bits, sizeof number);
        numbers[i] = number;
    }
    return numbers;
}

/* How an output lies to the expected one. */
struct Answer {
    /* The largest difference, and the largest expected number. */
    double difference = 0, largest = 0;
    double cosine = 0;

    Answer(const std::vector<double> &found, const std::vector<double> &expected) {
        double product = 0, one = 0, other = 0;
        for (std::size_t i = 0; i < expected.size(); i++) {
            double apart = std::fabs(found[i] - expected[i]);
            /* What is not a number stays. */
            difference = apart <= difference || std::isnan(difference) ? difference : apart;
            largest = std::fmax(largest, std::fabs(expected[i]));
            product += found[i] * expected[i];
            one += found[i] * found[i];
            other += expected[i] * expected[i];
        }
        cosine = product / std::sqrt(one * other);
    }

    /* With a tolerance that is a part of the largest number. */
    bool is_right(double tolerance) const { return difference <= tolerance * largest; }
};

#endif
