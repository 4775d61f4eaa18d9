/*
 * symbols [DRIVER [FLAG]]: what is found under names of the CUDA driver, by every way to ask;
 * before a driver is opened and after. Addresses are not printed: only whether there is one, and
 * whether it is the same as another.
 */
#include "check.h"

#include <dlfcn.h>
#include <stdint.h>

static const char *const names[] = {"cuInit", "cuLaunchKernel", "cuGetProcAddress_v2",
                                    "cuMemcpyHtoDAsync_v2_ptsz", "cuDeviceGet", "cudaMalloc",
                                    "curl_easy_init", "cu", "c", ""};

static const char *found(const void *address) {
    if (address != NULL)
        return "found";
    return dlerror() != NULL ? "not found, with a reason" : "not found, without a reason";
}

static void ask_everybody(void) {
    void *own = dlopen(NULL, RTLD_NOW);
    MUST(own != NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        printf("\"%s\": default %s, ", names[i], found(dlsym(RTLD_DEFAULT, names[i])));
        printf("next %s, ", found(dlsym(RTLD_NEXT, names[i])));
        printf("own %s\n", found(dlsym(own, names[i])));
    }
    MUST(dlclose(own) == 0);
}

/* The empty name at the end of a page: nothing behind it may be read. */
static void at_the_end_of_a_page(void) {
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    printf("at the end of a page: %s\n", found(dlsym(RTLD_DEFAULT, pages + 4095)));
    pages[4094] = 'c';
    printf("at the end of a page: %s\n", found(dlsym(RTLD_DEFAULT, pages + 4094)));
}

static void versions(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    MUST(libc != NULL);
    static const char *const asked[][2] = {
        {"pthread_mutex_lock", "GLIBC_2.2.5"},    {"pthread_cond_wait", "GLIBC_2.3.2"},
        {"pthread_cond_wait", "GLIBC_2.2.5"},     {"pthread_mutex_lock", "GLIBC_9.9"},
        {"pthread_mutex_clocklock", "GLIBC_2.34"}, {"cuInit", "GLIBC_2.2.5"}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const char *name = asked[i][0], *version = asked[i][1];
        printf("%s@%s: default %s, ", name, version, found(dlvsym(RTLD_DEFAULT, name, version)));
        printf("next %s, ", found(dlvsym(RTLD_NEXT, name, version)));
        printf("libc %s\n", found(dlvsym(libc, name, version)));
    }
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(libc, "pthread_mutex_lock");
    int (*unlock)(pthread_mutex_t *) =
        (int (*)(pthread_mutex_t *))dlvsym(RTLD_DEFAULT, "pthread_mutex_unlock", "GLIBC_2.2.5");
    MUST(lock != NULL && unlock != NULL && lock(&mutex) == 0 && unlock(&mutex) == 0);
    int (*both)(pthread_mutex_t *) =
        (int (*)(pthread_mutex_t *))dlsym(RTLD_DEFAULT, "pthread_mutex_trylock");
    MUST(both(&mutex) == 0 && both(&mutex) == EBUSY && unlock(&mutex) == 0);
}

typedef int get_proc_address(const char *, void **, int, uint64_t, int *);

static void ask_the_driver(void *driver) {
    static const char *const bases[] = {"cuInit", "cuLaunchKernel", "cuMemAlloc", "cuDeviceGet",
                                        "cuNoSuchThing", "cuGetProcAddress"};
    get_proc_address *ask = (get_proc_address *)dlsym(driver, "cuGetProcAddress_v2");
    MUST(ask != NULL);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        void *address = NULL, *again = NULL;
        int status = -1, rc = ask(bases[i], &address, 12000, 0, &status);
        ask(bases[i], &again, 12000, 0, &status);
        printf("%s: %d, status %d, %s, %s\n", bases[i], rc, status,
               address != NULL ? "found" : "not found",
               address == again ? "the same again" : "another");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("%s in the driver: %s\n", names[i], found(dlsym(driver, names[i])));
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    int number = 0;
    printf("init %d, ", init(0));
    printf("version %d, ", version(&number));
    printf("%d\n", number);
}

int main(int count, char **arguments) {
    ask_everybody();
    at_the_end_of_a_page();
    versions();
    if (count > 1) {
        bool global = count > 2 && strcmp(arguments[2], "global") == 0;
        for (int round = 0; round < 3; round++) {
            void *driver = dlopen(arguments[1], RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
            MUST(driver != NULL);
            ask_everybody();
            ask_the_driver(driver);
            MUST(dlclose(driver) == 0);
        }
    }
    return 0;
}
