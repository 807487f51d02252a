/* What the kernel takes for namespaces alone: processes that are born in new ones, and end at once.
 *
 *   namespaces FLAGS SECONDS     clone flags in hexadecimal; as many makers as CPUs; prints how many a second
 *
 * Nothing is in the namespaces, and each maker has left the host's mounts, so that few of them are copied:
 * no box can be made faster than this (bench/warm_floor). */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int leave_mounts(void)
{
    return unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
                   mount("none", "/proc", "tmpfs", 0, NULL) < 0 ||
                   syscall(SYS_pivot_root, "/proc", "/proc") < 0 || umount2("/", MNT_DETACH) < 0
               ? -1
               : 0;
}

static long make(unsigned long flags, double seconds)
{
    long made = 0;
    for (double until = now_s() + seconds; now_s() < until; made++) {
        long pid = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(0);
        if (pid < 0 || waitpid((pid_t)pid, NULL, 0) < 0)
            return -1;
    }
    return made;
}

int main(int argc, char **argv)
{
    int counts[2];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN), total = 0;
    if (argc != 3 || pipe(counts) < 0 || leave_mounts() < 0) {
        perror("namespaces");
        return 2;
    }
    unsigned long flags = strtoul(argv[1], NULL, 16);
    double seconds = strtod(argv[2], NULL);
    for (long i = 0; i < cpus; i++)
        if (fork() == 0) {
            long made = make(flags, seconds);
            _exit(write(counts[1], &made, sizeof made) != sizeof made);
        }
    close(counts[1]);
    for (long i = 0, made = 0; i < cpus; i++, total += made)
        if (read(counts[0], &made, sizeof made) != sizeof made || made < 0)
            return 1;
    printf("%.0f\n", (double)total / seconds);
    return 0;
}
