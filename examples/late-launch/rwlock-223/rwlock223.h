/* What librwlock223.so offers besides the pthread functions that it replaces. */
#ifndef RWLOCK223_H
#define RWLOCK223_H

#include <pthread.h>

/* How many threads are queued for the lock at this moment; for tests. */
void rwlock223_waiting(pthread_rwlock_t *rwlock, unsigned *readers, unsigned *writers);

#endif
