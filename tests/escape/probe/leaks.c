/* What the box learns of the host: names, numbers, paths, neighbours. */
#include "probe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char content[256 * 1024];

/* Does the file have this word, on its own, not as a part of a longer one? */
static bool content_has_word(const char *word)
{
    size_t length = strlen(word);
    for (const char *at = content; (at = strstr(at, word)); at += length)
        if ((at == content || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

static enum verdict file_does_not_tell(const char *path, const char *word, const char *what)
{
    if (!word)
        return undecided("the runner did not say %s", what);
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", path, error_name(errno));
    return content_has_word(word) ? broke("%s tells %s", path, what)
                                  : held("%s does not tell %s", path, what);
}

static enum verdict boot_id_is_hidden(const void *path)
{
    return file_does_not_tell(path, host_value("BOOT_ID"), "the boot id");
}

static enum verdict host_name_is_not_in(const void *path)
{
    return file_does_not_tell(path, host_value("HOSTNAME"), "the host's name");
}

static enum verdict host_socket_is_not_in(const void *path)
{
    char port[16];
    const char *said = host_value("TCP");
    if (said)
        snprintf(port, sizeof port, "%04X", (unsigned)atoi(said));
    return file_does_not_tell(path, said ? port : NULL, "a listening port of the host");
}

static enum verdict host_abstract_socket_is_not_in(const void *path)
{
    return file_does_not_tell(path, host_value("ABSTRACT"), "a socket of the host");
}

/* Interfaces are the lines after the two of the heading. */
static enum verdict interfaces_are_hidden(const void *path)
{
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    char *rest = content, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *name = line + strspn(line, " "), *colon = strchr(name, ':');
        if (!colon)
            continue;
        *colon = '\0';
        if (strcmp(name, "lo") != 0)
            return broke("the interface %s is listed", name);
    }
    return held("no interface but the loopback is listed");
}

/* The heading stands alone where there is no route. */
static enum verdict routes_are_hidden(const void *path)
{
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    const char *line = strchr(content, '\n');
    return line && line[1] ? broke("%s lists a route", (const char *)path)
                           : held("%s lists no route", (const char *)path);
}

/* All addresses are zero for those who must not know them. */
static enum verdict kernel_addresses_are_hidden(const void *path)
{
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    char *rest = content, *line;
    while ((line = strsep(&rest, "\n")))
        if (strtoull(line, NULL, 16) > 0xffff800000000000ULL)
            return broke("%s tells a kernel address", (const char *)path);
    return held("%s tells no kernel address", (const char *)path);
}

/* A page map entry holds the page's physical address in its low 55 bits, for those with CAP_SYS_ADMIN. */
static enum verdict physical_addresses_are_hidden(const void *path)
{
    volatile char touched[1] = {1};
    uint64_t entry = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    off_t offset = (off_t)((uintptr_t)touched / (uintptr_t)getpagesize() * sizeof entry);
    ssize_t got = pread(fd, &entry, sizeof entry, offset);
    close(fd);
    if (got == sizeof entry && (entry & ((UINT64_C(1) << 55) - 1)))
        return broke("%s tells a physical address", (const char *)path);
    return held("%s tells no physical address", (const char *)path);
}

/* In a cgroup namespace the own group is the root of all. */
static enum verdict cgroup_path_is_hidden(const void *path)
{
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    char *rest = content, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *group = strchr(line, '/');
        if (group && strcmp(group, "/") != 0)
            return broke("the cgroup is told: %s", group);
    }
    return held("the cgroup is not told");
}

/* File systems that only a host mounts, and the places where a box has mounts. */
static const char *const host_file_systems[] = {"cgroup",      "cgroup2", "debugfs",   "tracefs",
                                                "securityfs",  "pstore",  "efivarfs",  "configfs",
                                                "binfmt_misc", "fusectl", "hugetlbfs", NULL};
static const char *const virtual_file_systems[] = {"tmpfs",  "devtmpfs", "proc",    "sysfs", "devpts",
                                                   "mqueue", "ramfs",    "overlay", NULL};
static const char *const box_places[] = {"/usr",  "/bin", "/sbin",      "/lib",  "/etc",
                                         "/opt",  "/tmp", "/home/user", "/data", "/dev",
                                         "/proc", "/sys", "/code",      "/run",  NULL};

static bool is_one_of(const char *word, const char *const list[])
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list;
}

static bool is_box_place(const char *path)
{
    if (strcmp(path, "/") == 0)
        return true;
    for (size_t i = 0; box_places[i]; i++)
        if (strncmp(path, box_places[i], strlen(box_places[i])) == 0)
            return true;
    return false;
}

/* A line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type, source,
 * ... The root is a path inside of the host's file system: a bind mount from a directory of the host tells
 * where it is. That it may be called as it is in the box ("/usr" on "/usr") tells nothing. */
static enum verdict mounts_tell_no_host_path(const void *path)
{
    if (file_read(path, content, sizeof content) < 0)
        return held("%s: %s", (const char *)path, error_name(errno));
    char *rest = content, *line;
    while ((line = strsep(&rest, "\n")) && *line) {
        char root[1024], point[1024], type[64];
        const char *dash = strstr(line, " - ");
        if (sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2 || !dash ||
            sscanf(dash, " - %63s", type) != 1)
            continue;
        if (is_one_of(type, host_file_systems) || !is_box_place(point))
            return broke("a mount of the host is listed: %s on %s", type, point);
        if (!is_one_of(type, virtual_file_systems) && strcmp(root, "/") != 0 && strcmp(root, point) != 0)
            return broke("a path of the host is told: %s, mounted on %s", root, point);
        if (strstr(dash, "dir=/"))
            return broke("a path of the host is told by the options of %s", point);
    }
    return held("no path of the host is told");
}

/* Sockets and keys of the person who started the launcher, in the variables that name them. */
static enum verdict environment_names_no_agents(const void *unused)
{
    (void)unused;
    static const char *const names[] = {"SSH_AUTH_SOCK",
                                        "SSH_AGENT_PID",
                                        "SSH_CONNECTION",
                                        "GPG_AGENT_INFO",
                                        "DBUS_SESSION_BUS_ADDRESS",
                                        "DISPLAY",
                                        "WAYLAND_DISPLAY",
                                        "XAUTHORITY",
                                        "XDG_RUNTIME_DIR",
                                        "SUDO_USER",
                                        "SUDO_COMMAND",
                                        "DOCKER_HOST",
                                        "KUBECONFIG",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "GITHUB_TOKEN",
                                        "OPENAI_API_KEY",
                                        "ANTHROPIC_API_KEY",
                                        "GOOGLE_APPLICATION_CREDENTIALS",
                                        "LD_PRELOAD",
                                        "LD_LIBRARY_PATH",
                                        "CLOCHE_TEST_SECRET",
                                        "CLOCHE_WEAKEN",
                                        NULL};
    for (size_t i = 0; names[i]; i++)
        if (getenv(names[i]))
            return broke("the environment has %s", names[i]);
    return held("the environment names no agent of the launcher");
}

#define TREE "private_root,landlock"

static const struct probe rows[] = {
    {"boot_id_is_hidden", ON_BOTH, RETURNS, "proc_mask,landlock", boot_id_is_hidden,
     "/proc/sys/kernel/random/boot_id", "The number of the host's boot is not told."},
    {"machine_id_is_hidden", ON_BOTH, RETURNS, TREE, file_has_no_content,
     "/etc/machine-id:/var/lib/dbus/machine-id", "The number of the host's installation is not told."},
    {"host_name_file_is_hidden", ON_BOTH, RETURNS, TREE, host_name_is_not_in, "/etc/hostname",
     "/etc/hostname does not tell the host's name."},
    {"host_name_sysctl_is_hidden", ON_CONTAINER, RETURNS, "proc_mask,uts_namespace", host_name_is_not_in,
     "/proc/sys/kernel/hostname", "/proc/sys does not tell the host's name."},
    {"shadow_cannot_be_read", ON_BOTH, RETURNS, TREE "," HOST_USER, file_has_no_content,
     "/etc/shadow:/etc/shadow-:/etc/gshadow", "The host's password hashes cannot be read."},
    {"root_home_cannot_be_listed", ON_BOTH, RETURNS, TREE "," HOST_USER, directory_cannot_be_listed, "/root",
     "The home of the host's root cannot be listed."},
    {"var_cannot_be_listed", ON_BOTH, RETURNS, TREE, directory_cannot_be_listed,
     "/var/log:/var/lib:/var/cache:/var/spool", "The host's logs and state cannot be listed."},
    {"run_cannot_be_listed", ON_BOTH, RETURNS, TREE, directory_cannot_be_listed, "/run:/var/run",
     "The host's run-time state cannot be listed."},
    {"boot_cannot_be_listed", ON_BOTH, RETURNS, TREE, directory_cannot_be_listed,
     "/boot:/srv:/mnt:/media:/lost+found", "The lesser directories of the host's root cannot be listed."},
    {"neighbours_cannot_be_listed", ON_PROCESS, RETURNS, "landlock,box_uid", directory_cannot_be_listed,
     "{scratch}/..", "The scratch directories of other boxes cannot be listed."},
    {"host_user_homes_cannot_be_listed", ON_PROCESS, RETURNS, "landlock", directory_cannot_be_listed, "/home",
     "The homes of the host's users cannot be listed."},

    {"interfaces_are_hidden", ON_BOTH, RETURNS, "network_namespace,landlock", interfaces_are_hidden,
     "/proc/self/net/dev", "The host's network interfaces are not listed."},
    {"host_listeners_are_hidden", ON_BOTH, RETURNS, "network_namespace,landlock", host_socket_is_not_in,
     "/proc/self/net/tcp", "The host's listening ports are not listed."},
    {"host_unix_sockets_are_hidden", ON_BOTH, RETURNS, "network_namespace,landlock",
     host_abstract_socket_is_not_in, "/proc/self/net/unix", "The host's local sockets are not listed."},
    {"host_routes_are_hidden", ON_BOTH, RETURNS, "network_namespace,landlock", routes_are_hidden,
     "/proc/self/net/route", "The host's routes are not listed."},
    {"kernel_symbols_are_hidden", ON_BOTH, RETURNS, "proc_mask,landlock," HOST_ROOT,
     kernel_addresses_are_hidden, "/proc/kallsyms", "The kernel's symbols tell no address."},
    {"physical_addresses_are_hidden", ON_BOTH, RETURNS, "landlock," HOST_ROOT, physical_addresses_are_hidden,
     "/proc/self/pagemap", "The physical place of a page, which row hammering needs, is not told."},
    {"cgroup_path_is_hidden", ON_BOTH, RETURNS, "cgroup_namespace,landlock", cgroup_path_is_hidden,
     "/proc/self/cgroup", "The name of the box's control group is not told."},
    {"mounts_tell_no_path_of_the_host", ON_CONTAINER, RETURNS, "private_root", mounts_tell_no_host_path,
     "/proc/self/mountinfo", "The list of mounts tells no directory of the host."},
    {"environment_names_no_agents", ON_BOTH, RETURNS, "clean_environment", environment_names_no_agents, NULL,
     "The launcher's agents, displays and keys are not in the environment."},
};

PROBE_GROUP(leaks, rows);
