/* The least that an init can be: it starts a program, waits for it, and ends as it did. What `runsc run`
 * takes for this over the program alone is the floor under every box that has an init (bench/gvisor_start).
 */
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int status = 0;
    if (argc < 2)
        return 2;
    pid_t program = vfork();
    if (program == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (program < 0 || waitpid(program, &status, 0) != program || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}
