/*
 * Makes the C library look older than 2.35, when it could not yet tell which library an address
 * lies in. Preloaded after the library under test.
 */
#include <errno.h>

int _dl_find_object(void *address, void *result) {
    (void)address, (void)result;
    return ENOSYS;
}
