/*
 * keeptime_bandwidth.h: the memory-bandwidth lock by hand, for C99 and C++.
 *
 * While a program holds the lock, a regulator (keeptime regulate) holds the best-effort cores to
 * their budgets of memory traffic. Programs under `keeptime run --bandwidth` need none of this.
 *
 *     keeptime_bandwidth *lock = NULL;
 *     int error = keeptime_bandwidth_open(NULL, &lock);
 *     if (error != 0) fprintf(stderr, "no bandwidth lock: %s\n", strerror(-error));
 *
 *     keeptime_bandwidth_acquire(lock);
 *     ... work that needs the memory for itself ...
 *     keeptime_bandwidth_release(lock);
 *
 * The lock belongs to the process: it is held until it has been released as often as it was
 * acquired, by whichever threads, or until the process ends. Sleeping does not end it.
 *
 * If the regulator names a priority ceiling, acquiring also raises the calling thread to that
 * SCHED_FIFO priority, and releasing gives it back what it had. Then, and only then, a thread must
 * release as often as it acquires; a thread that may not have the priority stays as it is.
 *
 * acquire and release take a null pointer, and then do nothing: a program goes on without the
 * lock. They take no lock themselves, allocate nothing and leave errno alone. Any number of threads
 * may call them at once. In the child of a fork they do nothing until the child has opened a lock
 * of its own.
 *
 * If the regulator ends, acquire and release go on and have no effect; opening the lock again finds
 * the next regulator.
 */
#ifndef KEEPTIME_BANDWIDTH_H
#define KEEPTIME_BANDWIDTH_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct keeptime_bandwidth keeptime_bandwidth;

/*
 * Becomes a holder of the lock of the regulator at this socket, without taking it; null for
 * $KEEPTIME_BANDWIDTH, or without it the user's own regulator, or the machine's at
 * /run/keeptime/bandwidth.sock. Waits for at most half a second, and keeps no descriptor.
 *
 * *lock is a null pointer or a lock from an earlier call. The latter is closed, with all that it
 * holds, if a new one was opened; no other thread may use it meanwhile. Threads that are raised
 * stay so: with a ceiling, release first.
 *
 * Returns 0 or a negative error number, and then leaves *lock as it is:
 *   -EINVAL     lock is a null pointer
 *   -EACCES     this user may not hold the lock, or not reach the socket
 *   -ENOENT, -ECONNREFUSED, -ETIMEDOUT   no regulator is there
 *   -EUSERS     the largest number of holders is reached
 *   -EAGAIN     this user opens locks too often; later it may
 *   -EPROTO     what is there is no regulator of this version
 *   others      as the operating system has it
 */
int keeptime_bandwidth_open(const char *socket, keeptime_bandwidth **lock);

/* Takes the lock, once more if it is held. When it returns, the regulator has been told. */
void keeptime_bandwidth_acquire(keeptime_bandwidth *lock);

/* Gives one acquisition back. Without one, does nothing. */
void keeptime_bandwidth_release(keeptime_bandwidth *lock);

#ifdef __cplusplus
}
#endif

#endif
