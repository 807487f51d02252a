/* probe NAME | --list | --syscalls ABI FIRST LAST */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct probe_group *const groups[] = {
    &group_syscalls,   &group_filter,     &group_modes, &group_terminals, &group_mounts,
    &group_namespaces, &group_privileges, &group_files, &group_trees,     &group_descriptors,
    &group_processes,  &group_inspection, &group_leaks, &group_procfs,    &group_sysfs,
    &group_devices,    &group_network,    &group_ipc,   &group_memory,
};

enum { GROUPS = sizeof groups / sizeof *groups, TIME_LIMIT_SECONDS = 20 };

const struct probe *probe_find(const char *name)
{
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < groups[group]->count; i++)
            if (strcmp(groups[group]->probes[i].name, name) == 0)
                return &groups[group]->probes[i];
    return NULL;
}

static void list_probes(void)
{
    for (size_t group = 0; group < GROUPS; group++)
        for (size_t i = 0; i < groups[group]->count; i++) {
            const struct probe *probe = &groups[group]->probes[i];
            printf("%s\t%s\t%s\t%s\t%s\t%s\n", probe->name, groups[group]->name, probe->engines,
                   probe->controls, probe->description, probe->ending == MAY_BE_KILLED ? "yes" : "no");
        }
}

static void give_up(int signal_number)
{
    (void)signal_number;
    static const char text[] = "undecided: the attack took too long\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(VERDICT_UNDECIDED);
    _exit(VERDICT_UNDECIDED);
}

int main(int count, char **arguments)
{
    const char *command = count > 1 ? arguments[1] : "";
    if (strcmp(command, "--list") == 0) {
        list_probes();
        return 0;
    }
    if (strcmp(command, "--syscalls") == 0)
        return syscall_matrix(count - 2, arguments + 2);
    /* The second half of own_program_cannot_be_rewritten (trees.c), in a copy of the program. */
    if (strcmp(command, "--open-for-writing") == 0 && count == 3)
        return (int)file_cannot_be_opened_for_writing(arguments[2]);
    const struct probe *probe = probe_find(command);
    if (!probe) {
        fprintf(stderr, "usage: probe NAME | --list | --syscalls native|x32|i386 FIRST LAST\n");
        return VERDICT_UNDECIDED;
    }
    signal(SIGALRM, give_up);
    signal(SIGPIPE, SIG_IGN);
    alarm(TIME_LIMIT_SECONDS);
    return (int)probe->attack(probe->target);
}
