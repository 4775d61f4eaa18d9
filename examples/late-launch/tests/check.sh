#!/bin/sh
# Runs the checks and the programs against the fake driver; `make check` calls it with BUILD and
# TABLES set. Ends with the number of checks that passed and failed, and fails if one did.
set -u
export LD_LIBRARY_PATH="$BUILD"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# check NAME COMMAND...: the command, or the function below, must succeed.
check() {
    name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok     $name"
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        sed 's/^/       /' "$scratch/output"
    fi
}

# Runs a program of the build folder for two minutes at most.
run() {
    program=$1
    shift
    timeout -k 5 120 "$BUILD/$program" "$@"
}

# For what depends on the scheduler of a machine that others use too: one of three runs.
one_of_three() {
    "$@" || "$@" || "$@"
}

# ---- what the library looks like from outside

every_symbol_is_exported() {
    nm -D --defined-only "$BUILD/libcuda.so.1" | awk '$2 == "T" { print $3 }' | sort >"$scratch/exported"
    awk -F '\t' 'FNR > 1 { print $5 }' $TABLES | sort -u >"$scratch/listed"
    test -s "$scratch/listed" && diff "$scratch/listed" "$scratch/exported"
}

# No two entry points share an address: a recorder tells them apart by it.
addresses_are_distinct() {
    nm -D --defined-only "$BUILD/libcuda.so.1" | awk '$2 == "T" { print $1 }' | sort | uniq -d >"$scratch/twice"
    test ! -s "$scratch/twice"
}

locks_go_through_the_plt() {
    for function in pthread_mutex_lock pthread_mutex_unlock pthread_mutex_init pthread_rwlock_rdlock \
        pthread_rwlock_wrlock pthread_rwlock_unlock pthread_rwlock_init pthread_cond_wait; do
        readelf -rW "$BUILD/libcuda.so.1" | grep -q "JUMP_SLO.* $function" || {
            echo "$function is not called through the PLT"
            return 1
        }
    done
    readelf -dW "$BUILD/libcuda.so.1" | grep -q 'SONAME.*\[libcuda.so.1\]'
}

# ---- the programs

value_of() {
    tr ' ' '\n' <"$scratch/count" | sed -n "s/^$1=//p"
}

# The number behind the first match of a pattern in the program's report.
reported() {
    sed -n "s/.*$1\([0-9]*\),.*/\1/p" "$scratch/json"
}

# What the program counted must be what the driver counted.
counts_agree() {
    FAKE_CUDA_COUNT="$scratch/count" run "$@" --json >"$scratch/json" || return 1
    cat "$scratch/json" "$scratch/count"
    launches=$(reported '"launches": {"count": ')
    copies=$(reported '"copies": {"count": ')
    copying=$(reported '"copy_threads": ')
    launching=$(reported '"launch_threads": ')
    test "$launches" -gt 0 && test "$copies" -gt 0 || return 1
    # Each thread copies its result back once.
    all_copies=$((copies + copying + launching))
    test "$(value_of launches)" = "$launches" &&
        test "$(value_of kernels_executed)" = "$launches" &&
        test "$(value_of copies)" = "$all_copies" &&
        test "$(value_of copies_executed)" = "$all_copies" &&
        test "$(value_of unsupported)" = 0
}

wrong_options_are_refused() {
    run algorithm2 --bytes 5 2>"$scratch/message"
    test $? -eq 2 && grep -q -- '--bytes: "5": expected a multiple of 4' "$scratch/message" || return 1
    run algorithm2 --seconds never 2>"$scratch/message"
    test $? -eq 2 && grep -q -- '--seconds: "never": expected' "$scratch/message" || return 1
    run inversion --cpus 1,1 2>"$scratch/message"
    test $? -eq 2 && grep -q -- '--cpus: "1,1": expected' "$scratch/message"
}

# With SCHED_FIFO the inversion must show; without it only the warning is certain.
inversion_shows() {
    if chrt -f 10 true 2>/dev/null; then
        run inversion --rounds 3 --round-ms 200 --expect-inversion
    else
        run inversion --rounds 2 --round-ms 100 2>&1 | grep 'SCHED_FIFO was refused'
    fi
}

check "every entry point is exported, and nothing else" every_symbol_is_exported
check "entry points have distinct addresses" addresses_are_distinct
check "locks are taken through the PLT" locks_go_through_the_plt
for program in check_driver check_streams check_graphs check_locks check_rwlock223; do
    check "$program" run $program
done
check "algorithm2, pageable" counts_agree algorithm2 --seconds 0.5 --copy-threads 4 --launch-threads 2
check "algorithm2, pinned" counts_agree algorithm2 --seconds 0.5 --copy-threads 4 --launch-threads 2 --pinned
check "algorithm2, synchronised after each call" counts_agree algorithm2 --seconds 0.3 --sync-each
check "algorithm2, never synchronised" counts_agree algorithm2 --iterations 3000 --sync-every 0 --bytes 65536
check "algorithm2, as published" counts_agree algorithm2 --artifact
check "algorithm2_dlsym, pageable" counts_agree algorithm2_dlsym --seconds 0.5 --copy-threads 2
check "algorithm2_dlsym, as published" counts_agree algorithm2_dlsym --artifact
check "wrong options are refused" wrong_options_are_refused
check "inversion" one_of_three inversion_shows
check "starvation" one_of_three run starvation --seconds 1 --expect-starvation
echo "$passed passed, $failed failed"
test $failed -eq 0
