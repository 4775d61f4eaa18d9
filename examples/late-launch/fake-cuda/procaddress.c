/*
 * cuGetProcAddress: from a base name and a version to one of the exported forms.
 *
 * Among the forms that are not newer than the version it answers with the newest. If the caller
 * asks for per-thread default streams, a form for these goes before the others; a function that
 * takes no stream has none.
 */
#include "fake.h"
#include "procaddress.h"

#include <string.h>

static const struct entry_point *newest(const char *base, int version, bool per_thread,
                                        bool *known) {
    const struct entry_point *best = NULL;
    for (unsigned i = 0; i < entry_point_count; i++) {
        const struct entry_point *entry = &entry_points[i];
        if (strcmp(entry->base, base) != 0)
            continue;
        *known = true;
        if (entry->version <= version && (entry->per_thread != 0) == per_thread &&
            (best == NULL || entry->version > best->version))
            best = entry;
    }
    return best;
}

static CUresult resolve(const char *symbol, void **address, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    if (symbol == NULL || address == NULL || version <= 0 ||
        flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = false;
    const struct entry_point *entry = NULL;
    if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        entry = newest(symbol, version, true, &known);
    if (entry == NULL)
        entry = newest(symbol, version, false, &known);
    *address = NULL;
    if (entry != NULL)
        memcpy(address, &entry->address, sizeof *address);
    if (status != NULL)
        *status = entry != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return entry != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **address, int version,
                                 cuuint64_t flags) {
    return resolve(symbol, address, version, flags, NULL);
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    return resolve(symbol, address, version, flags, status);
}

/* What a caller compiled for per-thread default streams calls: the default flag means those. */
EXPORT CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **address, int version,
                                         cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *status) {
    if (flags == CU_GET_PROC_ADDRESS_DEFAULT)
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    return resolve(symbol, address, version, flags, status);
}

/* The private tables of a real driver are not imitated. */
EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id) {
    (void)id;
    if (table != NULL)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}
