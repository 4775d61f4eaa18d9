/* What programs do to themselves and with others; each mode of it is an argument. */
#include "check.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *self;

static void lock(long times) {
    for (long i = 0; i < times; i++) {
        MUST(pthread_mutex_lock(&mutex) == 0);
        MUST(pthread_mutex_unlock(&mutex) == 0);
    }
}

static void *lock_in_thread(void *times) {
    lock((long)times);
    return NULL;
}

static void lock_in_new_thread(long times) {
    run_thread(lock_in_thread, (void *)times);
}

/* Who locked how often, for the test: process ids differ from run to run. */
static void tell(long times) {
    fprintf(stderr, "locked %d %ld\n", (int)getpid(), times);
}

static void await_child(pid_t child) {
    int status;
    MUST(child > 0 && waitpid(child, &status, 0) == child);
    printf("a child ended with %d\n", status);
    fflush(stdout);
}

/* ---- Forks ------------------------------------------------------------------------------------ */

static atomic_bool stop;
static atomic_long others;

static void *lock_until_stopped(void *unused) {
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    while (!atomic_load(&stop)) {
        MUST(pthread_mutex_lock(&own) == 0);
        MUST(pthread_mutex_unlock(&own) == 0);
        atomic_fetch_add(&others, 1);
        sched_yield();
    }
    return unused;
}

/* A child locks in two threads, its own child does so too, and so on. */
static void generations(int deep) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        lock(100 * deep);
        lock_in_new_thread(11);
        tell(100 * deep + 11);
        if (deep > 1)
            generations(deep - 1);
        lock(1);
        fflush(NULL);
        _exit(deep);
    }
    await_child(child);
}

static void forks(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, lock_until_stopped, NULL) == 0);
    lock(50);
    for (int i = 0; i < 5; i++)
        generations(3);
    fflush(NULL);
    pid_t silent = fork(); /* locks nothing */
    if (silent == 0)
        _exit(0);
    await_child(silent);
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    tell(50 + atomic_load(&others));
}

/* ---- Other programs --------------------------------------------------------------------------- */

extern char **environ;

static char *const *words(const char *mode, const char *number) {
    static const char *all[4];
    all[0] = self;
    all[1] = mode;
    all[2] = number;
    return (char *const *)all;
}

static void run_self(const char *number, char *const *environment) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execve(self, words("lock", number), environment);
        _exit(98);
    }
    await_child(child);
}

static void programs(void) {
    lock(5);
    tell(5);
    run_self("10", environ);
    pid_t child = vfork();
    if (child == 0) {
        execve(self, words("lock", "20"), environ);
        _exit(98);
    }
    await_child(child);
    MUST(posix_spawn(&child, self, NULL, NULL, words("lock", "30"), environ) == 0);
    await_child(child);
    MUST(system("exit 3") == 3 << 8);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        execv(self, words("chain", "3"));
        _exit(98);
    }
    await_child(child);
}

/* Becomes itself again and again, in the same process. */
static void chain(const char *number) {
    int left = atoi(number);
    char next[2] = {(char)('0' + left - 1), 0};
    lock(100 + left);
    if (left > 0) {
        execv(self, words("chain", next));
        _exit(98);
    }
}

static void without_environment(void) {
    char *const nothing[] = {NULL};
    lock(5);
    run_self("10", nothing);
    MUST(clearenv() == 0);
    lock(2);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        lock(3);
        _exit(0);
    }
    await_child(child);
}

/* ---- What they take from themselves ----------------------------------------------------------- */

/* Closes every descriptor, locks, and sees that the next ones it gets are the lowest. */
static bool without_descriptors(void) {
    bool right = true;
    for (int fd = 0; fd <= 65535; fd++)
        close(fd);
    lock(10);
    lock_in_new_thread(10);
    for (int fd = 0; fd < 5; fd++) {
        int opened = open("/dev/null", O_RDWR);
        lock_in_new_thread(1);
        right = right && opened == fd;
    }
    lock(4000); /* more than a chunk holds */
    struct rlimit none = {0, 0};
    MUST(setrlimit(RLIMIT_NOFILE, &none) == 0);
    lock(1);
    pid_t child = fork();
    if (child == 0) {
        lock(7);
        _exit(0);
    }
    int status;
    MUST(waitpid(child, &status, 0) == child);
    return right && status == 0;
}

static void without_root(void) {
    const int nobody = 65534;
    lock(5);
    MUST(setgroups(0, NULL) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0);
    lock(5);
    tell(10);
    run_self("40", environ);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        lock(6);
        tell(6);
        _exit(0);
    }
    await_child(child);
}

static void in_a_cage(const char *folder) {
    MUST(chroot(folder) == 0 && chdir("/") == 0);
    MUST(access("/proc/self/exe", F_OK) != 0);
    lock(10);
    lock_in_new_thread(10);
    tell(20);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        lock(6);
        tell(6);
        fflush(NULL);
        _exit(0);
    }
    await_child(child);
}

/* The next program has no address space for a recording. */
static void in_little_space(void) {
    struct rlimit little = {100 << 20, 100 << 20};
    MUST(setrlimit(RLIMIT_AS, &little) == 0);
    run_self("10", environ);
    lock(3);
}

/* ---- Seccomp ---------------------------------------------------------------------------------- */

enum way { BY_PRCTL, BY_SYSCALL, BY_SYSCALL_OF_PRCTL };

#define LOAD_NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ALLOW(name)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define KILL(name)                                                                                 \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1),                                         \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static struct sock_filter only_the_least[] = {
    LOAD_NUMBER,
    ALLOW(read),
    ALLOW(write),
    ALLOW(futex),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

/* The same, and to fork. */
static struct sock_filter only_forks[] = {
    LOAD_NUMBER,
    ALLOW(read),
    ALLOW(write),
    ALLOW(futex),
    ALLOW(exit),
    ALLOW(exit_group),
    ALLOW(rt_sigreturn),
    ALLOW(clone),
    ALLOW(wait4),
    ALLOW(set_robust_list),
    ALLOW(rt_sigprocmask),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static struct sock_filter no_sockets[] = {
    LOAD_NUMBER,
    KILL(socket),
    KILL(connect),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};

#define INSTALL(way, filter) install(way, filter, sizeof(filter) / sizeof(filter)[0])

static void install(enum way way, struct sock_filter *filter, size_t length) {
    struct sock_fprog program = {.len = (unsigned short)length, .filter = filter};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (way == BY_PRCTL)
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else if (way == BY_SYSCALL)
        MUST(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    else
        MUST(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Locks so often that the recording would need memory. */
static void lock_and_exit(void) {
    lock(5000);
    syscall(SYS_exit_group, 0);
}

static void child_in_a_sandbox(enum way way) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        INSTALL(way, only_the_least);
        lock_and_exit();
    }
    await_child(child);
}

static void grandchild_in_a_sandbox(enum way way) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        INSTALL(way, only_forks);
        pid_t grandchild = fork();
        if (grandchild == 0)
            lock_and_exit();
        int status;
        MUST(waitpid(grandchild, &status, 0) == grandchild);
        _exit(status);
    }
    await_child(child);
}

static void child_in_strict_mode(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        lock(5000);
        syscall(SYS_exit, 0);
    }
    await_child(child);
}

static void program_without_sockets(void) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        INSTALL(BY_SYSCALL, no_sockets);
        execve(self, words("lock", "10"), environ);
        _exit(98);
    }
    await_child(child);
}

static void sandboxes(void) {
    lock(10);
    for (int way = BY_PRCTL; way <= BY_SYSCALL_OF_PRCTL; way++) {
        child_in_a_sandbox(way);
        grandchild_in_a_sandbox(way);
    }
    child_in_strict_mode();
    program_without_sockets();
    /* The kernel refuses these; asking is not restricting. */
    SHOW(prctl(PR_GET_SECCOMP));
    SHOW(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
    SHOW(prctl(PR_SET_SECCOMP, 77, NULL));
    unsigned action = SECCOMP_RET_ALLOW;
    SHOW((int)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
    SHOW((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL));
    SHOW((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL));
    /* More arguments than fit into registers. */
    char byte = 'x', *page = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(page != MAP_FAILED);
    *page = byte;
    run_self("10", environ);
    lock(20);
    tell(30);
}

/* ---- The recorder goes ------------------------------------------------------------------------ */

/* Waits for a line before each of its parts; the test does something meanwhile. */
static void in_parts(void) {
    for (int c; (c = getchar()) != EOF;) {
        if (c != '\n')
            continue;
        lock(5000);
        lock_in_new_thread(5000);
        run_self("10", environ);
        printf("part done\n");
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    MUST(count >= 2);
    self = arguments[0];
    const char *mode = arguments[1], *word = count > 2 ? arguments[2] : NULL;
#define MODE(name) (strcmp(mode, name) == 0)
    if (MODE("lock")) {
        lock(atol(word));
        tell(atol(word));
    } else if (MODE("forks"))
        forks();
    else if (MODE("programs"))
        programs();
    else if (MODE("chain"))
        chain(word);
    else if (MODE("without-environment"))
        without_environment();
    else if (MODE("without-descriptors"))
        return without_descriptors() ? 0 : 1;
    else if (MODE("without-root"))
        without_root();
    else if (MODE("in-a-cage"))
        in_a_cage(word);
    else if (MODE("in-little-space"))
        in_little_space();
    else if (MODE("sandboxes"))
        sandboxes();
    else if (MODE("in-parts"))
        in_parts();
    else
        return 97;
    return 0;
}
