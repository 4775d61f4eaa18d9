#!/bin/sh
# Runs in a bare Debian tree with a C compiler: installs the package, uses it, and removes it; then
# does the same with the tarball.
set -eux
cd /tmp
mount -t proc proc /proc
dpkg -i /keeptime.deb
keeptime --version

# Exit status 1 of doctor would say that one of these parts cannot work here.
keeptime doctor run guard serve

# The tutorials of the recorder, and of the server with programs in C, as written.
for tutorial in tutorial-late tutorial-share; do
    rm -rf "/tmp/$tutorial"
    mkdir "/tmp/$tutorial"
    (cd "/tmp/$tutorial" && { sh "/$tutorial.sh" || { cat .out.*; exit 1; }; })
done

# A client by CMake, and the server as the package configures it.
mkdir -p client
cp "$HOME"/keeptime/examples/c/vector_add.c client/
cat > client/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.18)
project(client C)
find_package(keeptime REQUIRED)
add_executable(by_cmake vector_add.c)
target_link_libraries(by_cmake keeptime::keeptime)
CMAKE
cmake -S client -B client/build
cmake --build client/build
cc client/vector_add.c $(pkg-config --cflags --libs keeptime) -o by_pkg_config
pkg-config --libs keeptime_bandwidth
ldd ./by_pkg_config | grep libkeeptime.so.0
keeptime serve /etc/keeptime/server.yaml --socket /tmp/keeptime.sock &
server=$!
# The socket is there at once or the server has ended.
until test -S /tmp/keeptime.sock; do kill -0 $server; sleep 0.1; done
KEEPTIME_SOCKET=/tmp/keeptime.sock ./by_pkg_config
KEEPTIME_SOCKET=/tmp/keeptime.sock client/build/by_cmake
kill $server
wait $server

test -s /usr/share/man/man1/keeptime-run.1
test -s /usr/share/bash-completion/completions/keeptime
dpkg --purge keeptime
test ! -e /usr/bin/keeptime
test ! -e /usr/include/keeptime.h

# The tarball, as docs/c-library.md installs it.
tar -xzf /keeptime.tar.gz -C / --strip-components=1
ldconfig
keeptime --version
rm -rf /tmp/tarball
mkdir /tmp/tarball
(cd /tmp/tarball && { sh /tutorial-share.sh || { cat .out.*; exit 1; }; })
tar -tzf /keeptime.tar.gz | sed -n 's,^[^/]*/,/,p' | grep -v '/$' | xargs rm
test ! -e /usr/bin/keeptime
