#!/bin/sh
# servers.sh redis|postgres FOLDER: runs a server and its benchmark in an empty folder, and prints
# what the server's data must be afterwards. Its output is the same every time; how fast it was
# stands in FOLDER/speed. Debian: redis-server, postgresql.
set -eu

server=$1
folder=$2
mkdir -p "$folder"
pid=

end() {
    test -z "$pid" || kill "$pid" 2>/dev/null || true
}
trap end EXIT

# Tries a command until it works, for a minute.
await() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        test $tries -lt 600 || { echo "$* does not come to work"; exit 1; }
        sleep 0.1
    done
}

redis() {
    socket=$folder/redis.sock
    redis-server --port 0 --unixsocket "$socket" --dir "$folder" --io-threads 3 \
        --io-threads-do-reads yes --save '' --appendonly yes --daemonize no >"$folder/log" 2>&1 &
    pid=$!
    await redis-cli -s "$socket" ping
    timeout 300 redis-benchmark -s "$socket" -t set,incr,lpush -n 5000 -c 20 --threads 2 \
        -q >"$folder/speed"
    echo "counter: $(redis-cli -s "$socket" get counter:__rand_int__)"
    # Forks: a snapshot, and the log written anew, while others write.
    redis-cli -s "$socket" bgsave >/dev/null
    timeout 300 redis-benchmark -s "$socket" -t incr -n 5000 -c 20 -P 8 -q >>"$folder/speed"
    await sh -c "redis-cli -s '$socket' info persistence | grep -q rdb_bgsave_in_progress:0"
    redis-cli -s "$socket" bgrewriteaof >/dev/null
    await sh -c "redis-cli -s '$socket' info persistence | grep -q aof_rewrite_in_progress:0"
    redis-cli -s "$socket" info persistence | tr -d '\r' | grep -E '^(rdb_last_bgsave|aof_last_bgrewrite)_status'
    echo "counter: $(redis-cli -s "$socket" get counter:__rand_int__)"
    redis-cli -s "$socket" eval 'local n = 0 for i = 1, 100000 do n = n + i end return n' 0
    redis-cli -s "$socket" shutdown nosave || true
    status=0
    wait "$pid" || status=$?
    pid=
    echo "the server ended with $status"
}

# PostgreSQL does not run as root.
as_user() {
    if test "$(id -u)" = 0; then
        setpriv --reuid=postgres --regid=postgres --init-groups "$@"
    else
        "$@"
    fi
}

query() {
    as_user "$bin/psql" -h "$folder" -U postgres -At -c "$1" postgres
}

postgres() {
    bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
    test "$(id -u)" != 0 || chown postgres "$folder"
    cd "$folder"
    as_user "$bin/initdb" -D "$folder/data" -U postgres -A trust -N >"$folder/log" 2>&1
    as_user "$bin/pg_ctl" -D "$folder/data" -w -t 120 -l "$folder/server-log" \
        -o "-k '$folder' -c listen_addresses='' -c fsync=off" start >/dev/null
    as_user timeout 300 "$bin/pgbench" -h "$folder" -U postgres -i -q postgres \
        >"$folder/speed" 2>&1
    # Four clients on one branch: they wait for each other's rows.
    as_user timeout 300 "$bin/pgbench" -h "$folder" -U postgres -c 4 -j 2 -t 250 postgres \
        >>"$folder/speed" 2>&1
    echo "transactions: $(query 'select count(*) from pgbench_history')"
    echo "balanced: $(query 'select (select sum(abalance) from pgbench_accounts) = sum(delta)
        and (select sum(bbalance) from pgbench_branches) = sum(delta)
        and (select sum(tbalance) from pgbench_tellers) = sum(delta) from pgbench_history')"
    # With helpers of its own.
    echo "sum: $(query 'set parallel_setup_cost = 0; set min_parallel_table_scan_size = 0;
        select sum(aid) from pgbench_accounts' | tail -n 1)"
    as_user "$bin/pg_ctl" -D "$folder/data" -m fast -w -t 120 stop >/dev/null
    echo "stopped"
}

"$server"
