/* A layer between a program and its disk that knows what a power cut would lose.
 *
 * Loaded by LD_PRELOAD. Every write to a file under $POWERLOSS_DIRECTORY is written down in $POWERLOSS_JOURNAL before it
 * is done, with the bytes that it replaces, and every sync after it is done. Whoever kills the program can then take
 * back any of the writes that no sync has made durable (powerloss.py).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;
static const char *directory;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("POWERLOSS_JOURNAL");
    directory = getenv("POWERLOSS_DIRECTORY");
    if (path && directory) journal = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The path of a file that is watched over, or nothing. Shared memory of SQLite (-shm) is no promise of anything. */
static const char *watched(int fd, char *path, size_t size) {
    char link[64];
    if (journal < 0) return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0) return NULL;
    path[length] = 0;
    if (strncmp(path, directory, strlen(directory)) || (length > 4 && !strcmp(path + length - 4, "-shm"))) return NULL;
    return path;
}

static void record(char kind, const char *path, long long offset, const void *old, size_t old_length, const void *new,
                   size_t new_length, long long size) {
    char head[8192];
    int length = snprintf(head, sizeof head, "%c %lld %zu %zu %lld %s\n", kind, offset, old_length, new_length, size, path);
    struct iovec parts[3] = {{head, length}, {(void *)old, old_length}, {(void *)new, new_length}};
    if (writev(journal, parts, 3) < 0) abort();
}

static void before_write(int fd, const void *data, size_t length, off64_t offset) {
    char path[4096];
    struct stat64 now;
    if (!watched(fd, path, sizeof path) || fstat64(fd, &now)) return;
    char *old = malloc(length ? length : 1);
    ssize_t had = pread64(fd, old, length, offset);
    pthread_mutex_lock(&lock);
    record('W', path, offset, old, had > 0 ? had : 0, data, length, now.st_size);
    pthread_mutex_unlock(&lock);
    free(old);
}

static void before_truncate(int fd, off64_t length) {
    char path[4096];
    struct stat64 now;
    if (!watched(fd, path, sizeof path) || fstat64(fd, &now)) return;
    size_t lost = now.st_size > length ? now.st_size - length : 0;
    char *old = malloc(lost ? lost : 1);
    ssize_t had = lost ? pread64(fd, old, lost, length) : 0;
    pthread_mutex_lock(&lock);
    record('T', path, length, old, had > 0 ? had : 0, NULL, 0, now.st_size);
    pthread_mutex_unlock(&lock);
    free(old);
}

static int after_sync(int fd, int result) {
    char path[4096];
    if (!result && watched(fd, path, sizeof path)) {
        pthread_mutex_lock(&lock);
        record('S', path, 0, NULL, 0, NULL, 0, 0);
        pthread_mutex_unlock(&lock);
    }
    return result;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
    before_write(fd, data, length, offset);
    return REAL(pwrite64)(fd, data, length, offset);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
    before_write(fd, data, length, offset);
    return REAL(pwrite)(fd, data, length, offset);
}
ssize_t write(int fd, const void *data, size_t length) {
    if (journal >= 0 && fd != journal) {
        off64_t offset = lseek64(fd, 0, SEEK_CUR);
        if (offset >= 0) before_write(fd, data, length, offset);
    }
    return REAL(write)(fd, data, length);
}
int ftruncate64(int fd, off64_t length) {
    before_truncate(fd, length);
    return REAL(ftruncate64)(fd, length);
}
int ftruncate(int fd, off_t length) {
    before_truncate(fd, length);
    return REAL(ftruncate)(fd, length);
}
int fsync(int fd) { return after_sync(fd, REAL(fsync)(fd)); }
int fdatasync(int fd) { return after_sync(fd, REAL(fdatasync)(fd)); }
