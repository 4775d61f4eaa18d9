/* Stands in for the generated message of std_msgs. */
#pragma once

#include <cstdint>

namespace std_msgs::msg {

struct UInt64 {
    uint64_t data = 0;
};

} // namespace std_msgs::msg
