/* Preloaded: disturbs a process just before one exact change of a name, such as a rename.

   Every change below the folder DRILL_FOLDER gets a number, counted over all processes that share the file DRILL_COUNT,
   and with DRILL_LOG a line: number, CPU seconds of the process so far, operation, paths. Before number DRILL_AT, the
   process group gets SIGKILL, or with DRILL_STOP this process gets SIGSTOP.

   The variables are read at the first change that finds DRILL_FOLDER set, since a forked process sets them late. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *folder;
static int *count, log_file = -1;
static long at;

static void read_variables(void) {
  const char *count_path = getenv("DRILL_COUNT"), *log_path = getenv("DRILL_LOG"), *number = getenv("DRILL_AT");
  int file = open(count_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (ftruncate(file, sizeof *count)) abort();
  count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (log_path) log_file = open(log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  at = number ? atol(number) : 0;
  folder = getenv("DRILL_FOLDER");
}

static void before(const char *operation, int directory, const char *path, const char *target) {
  if (!folder && getenv("DRILL_FOLDER")) read_variables();
  if (!folder) return;
  char full[2 * PATH_MAX + 2];
  if (path[0] != '/') { /* below an open directory, as shutil.rmtree removes files, or below the working directory */
    char link[64], parent[PATH_MAX + 1];
    if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, parent, PATH_MAX);
    if (length < 0) return;
    parent[length] = 0;
    snprintf(full, sizeof full, "%s/%s", parent, path);
    path = full;
  }
  if (strncmp(path, folder, strlen(folder))) return;
  int number = __sync_add_and_fetch(count, 1);
  if (log_file >= 0) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    dprintf(log_file, "%d\t%.3f\t%s\t%s\t%s\n", number, used.tv_sec + used.tv_nsec * 1e-9, operation, path, target);
  }
  if (number != at) return;
  if (getenv("DRILL_STOP")) raise(SIGSTOP);
  else for (kill(0, SIGKILL);;) pause();
}

#define REAL(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))
int rename(const char *a, const char *b) { before("rename", AT_FDCWD, a, b); return REAL(rename)(a, b); }
int renameat(int d, const char *a, int e, const char *b) { before("rename", d, a, b); return REAL(renameat)(d, a, e, b); }
int link(const char *a, const char *b) { before("link", AT_FDCWD, a, b); return REAL(link)(a, b); }
int unlink(const char *a) { before("unlink", AT_FDCWD, a, ""); return REAL(unlink)(a); }
int unlinkat(int d, const char *a, int f) { before("unlink", d, a, ""); return REAL(unlinkat)(d, a, f); }
int remove(const char *a) { before("unlink", AT_FDCWD, a, ""); return REAL(remove)(a); }
int rmdir(const char *a) { before("rmdir", AT_FDCWD, a, ""); return REAL(rmdir)(a); }
int mkdir(const char *a, mode_t m) { before("mkdir", AT_FDCWD, a, ""); return REAL(mkdir)(a, m); }
