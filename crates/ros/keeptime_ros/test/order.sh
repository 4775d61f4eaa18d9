#!/bin/sh
# Compares what the program says with what is expected. Its last line, the scheduling, depends on
# what the machine allows.
cd "$(dirname "$0")" || exit 2
# shellcheck disable=SC2046
"$1" $(cat order.arguments) | sed '$d' | diff order.expected -
