/* Preloaded into a server whose instructions are counted, so that it needs the same number each time: some seconds after
   its start its timers stand still, and its hash functions have no seeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t last;

__attribute__((constructor)) static void begin(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    last = now.tv_sec + SECONDS;
}

/* What timers go by. Wall clocks go on. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC && now->tv_sec >= last) {
        now->tv_sec = last;
        now->tv_nsec = 0;
    }
    return done;
}

/* Where seeds come from. */
FILE *fopen(const char *path, const char *mode) {
    FILE *(*open)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    return open(strcmp(path, "/dev/urandom") ? path : "/dev/zero", mode);
}

FILE *fopen64(const char *path, const char *mode) { return fopen(path, mode); }
