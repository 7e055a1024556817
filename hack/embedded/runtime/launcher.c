/*
 * Starts one container for an ordinary user: a process in user, mount, pid, ipc and uts namespaces of its
 * own, with a root built by the operations on the command line.
 *
 *     vgpu-container STATUS_FD OPERATION... -- PROGRAM [ARGUMENT...]
 *     vgpu-container enter PID [env NAME=VALUE]... -- PROGRAM [ARGUMENT...]
 *
 * The second form runs one more program in the container whose launcher has this process id, with our own standard
 * streams, and ends as it does; 126 if it could not be started. It dies with its parent.
 *
 * Operations run in the order given; container paths are below the root that `root` made.
 *     root DIR              mount a tmpfs on the host folder DIR: it becomes the root
 *     dir PATH              make a folder and its parents
 *     link TARGET PATH      make a symbolic link; TARGET should be relative, it is also followed outside
 *     tmpfs PATH            mount a tmpfs
 *     proc PATH             mount the container's own /proc, or the host's where the kernel refuses
 *     bind SOURCE PATH OPT  bind a host file or folder; OPT is a comma list of ro,rw,nosuid,nodev,noexec,bind,rbind
 *     host NAME             host name
 *     env NAME=VALUE        one variable; nothing else is inherited
 *
 * STATUS_FD: a pipe that gets one line if the program could not be started ("create: …" before, "start: …" at
 * exec), and is closed without one when it runs. Standard input: the lifeline; when its other end goes away, so
 * does the container. SIGTERM goes to the container's first process alone, SIGUSR1 kills all of it. The exit
 * status is the program's, or 128 + the signal. The launcher outlives every process of its container, so its
 * own process stands for the container; it must be started as the leader of a session.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED                                                                                            \
    "; the kernel refuses user namespaces to this user. To allow them, as root: sysctl -w"                 \
    " kernel.unprivileged_userns_clone=1 user.max_user_namespaces=16384"                                   \
    " kernel.apparmor_restrict_unprivileged_userns=0 (those that exist here)"

static int status_fd;
static const char *root;
static char *environment[4096] = {"PATH=/opt/vgpu/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                  "LD_LIBRARY_PATH=/opt/rocm/lib",
                                  "HOME=/root"};

__attribute__((noreturn, format(printf, 2, 3))) static void fail(const char *stage, const char *format, ...) {
    char text[2 * PATH_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    dprintf(status_fd, "%s: %s\n", stage, text);
    _exit(125);
}

static const char *inside(const char *path) {
    static char joined[2 * PATH_MAX];
    if (!root)
        fail("create", "%s: no root yet", path);
    snprintf(joined, sizeof joined, "%s/%s", root, path);
    return joined;
}

static void make_folders(const char *path) {
    char partial[2 * PATH_MAX];
    snprintf(partial, sizeof partial, "%s", path);
    for (char *slash = partial + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(partial, 0755) && errno != EEXIST)
            fail("create", "mkdir %s: %s", partial, strerror(errno));
        *slash = '/';
    }
    if (mkdir(partial, 0755) && errno != EEXIST)
        fail("create", "mkdir %s: %s", partial, strerror(errno));
}

static void make_target(const char *source, const char *target) {
    struct stat kind;
    char parent[2 * PATH_MAX];
    int fd;
    if (stat(source, &kind))
        fail("create", "failed to stat %s: %s", source, strerror(errno));
    if (S_ISDIR(kind.st_mode)) {
        make_folders(target);
        return;
    }
    snprintf(parent, sizeof parent, "%s", target);
    make_folders(dirname(parent));
    fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        fail("create", "mount point %s: %s", target, strerror(errno));
    close(fd);
}

static unsigned long mount_flags(const char *options) {
    static const struct {
        const char *name;
        unsigned long flag;
    } known[] = {{"ro", MS_RDONLY},     {"rw", 0},   {"nosuid", MS_NOSUID}, {"nodev", MS_NODEV},
                 {"noexec", MS_NOEXEC}, {"bind", 0}, {"rbind", 0}};
    unsigned long flags = 0;
    char *copy = strdup(options), *rest = copy;
    for (char *word; (word = strsep(&rest, ","));) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(word, known[i].name))
            i++;
        if (i == sizeof known / sizeof *known)
            fail("create", "mount option %s is not known", word);
        flags |= known[i].flag;
    }
    free(copy);
    return flags;
}

static void bind_mount(const char *source, const char *target, const char *options) {
    unsigned long flags = mount_flags(options);
    struct statvfs now;
    make_target(source, target);
    /* Recursive: a user namespace may not peel the host's submounts off. */
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL))
        fail("create", "mount %s on %s: %s", source, target, strerror(errno));
    if (!flags)
        return;
    /* Flags that the host's mount has are locked: a remount that misses one is refused. */
    if (statvfs(target, &now))
        fail("create", "statvfs %s: %s", target, strerror(errno));
    flags |= now.f_flag & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
    if (mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | flags, NULL))
        fail("create", "remount %s (%s): %s", target, options, strerror(errno));
}

static void mount_tmpfs(const char *target, const char *hint) {
    if (mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"))
        fail("create", "mount tmpfs on %s: %s%s", target, strerror(errno), hint);
}

static void mount_proc(const char *target) {
    make_folders(target);
    if (!mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        return;
    /* Inside a container whose /proc is partly masked, a fresh one would show too much. */
    if (mount("/proc", target, NULL, MS_BIND | MS_REC, NULL))
        fail("create", "mount /proc: %s", strerror(errno));
}

static void set_variable(char *assignment) {
    size_t name = strcspn(assignment, "=") + 1, i = 0;
    while (environment[i] && strncmp(environment[i], assignment, name))
        i++;
    if (i >= sizeof environment / sizeof *environment - 1)
        fail("create", "too many environment variables");
    environment[i] = assignment;
}

/* Runs the operations in `arguments` and returns what follows `--`: the program and its arguments. */
static char **run_operations(char **arguments) {
    while (*arguments) {
        char *name = *arguments++;
        if (!strcmp(name, "--"))
            return arguments;
        if (!strcmp(name, "root")) {
            root = *arguments++;
            mount_tmpfs(root, REFUSED);
        } else if (!strcmp(name, "dir")) {
            make_folders(inside(*arguments++));
        } else if (!strcmp(name, "tmpfs")) {
            make_folders(inside(*arguments));
            mount_tmpfs(inside(*arguments++), "");
        } else if (!strcmp(name, "proc")) {
            mount_proc(inside(*arguments++));
        } else if (!strcmp(name, "link")) {
            if (symlink(arguments[0], inside(arguments[1])))
                fail("create", "link %s: %s", arguments[1], strerror(errno));
            arguments += 2;
        } else if (!strcmp(name, "bind")) {
            bind_mount(arguments[0], inside(arguments[1]), arguments[2]);
            arguments += 3;
        } else if (!strcmp(name, "host")) {
            if (sethostname(*arguments, strlen(*arguments)))
                fail("create", "sethostname: %s", strerror(errno));
            arguments++;
        } else if (!strcmp(name, "env")) {
            set_variable(*arguments++);
        } else {
            fail("create", "operation %s is not known", name);
        }
    }
    fail("create", "no program");
}

static void enter_root(void) {
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
        fail("create", "pivot_root: %s", strerror(errno));
}

/* A container's root has the usual few capabilities: it can neither unmount what was mounted read-only nor leave its root. */
static void drop_capabilities(void) {
    static const int kept[] = {CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FSETID,  CAP_FOWNER, CAP_NET_RAW, CAP_SETGID, CAP_SETUID,
                               CAP_SETFCAP, CAP_SETPCAP,     CAP_NET_BIND_SERVICE,    CAP_KILL,    CAP_AUDIT_WRITE};
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
        size_t i = 0;
        while (i < sizeof kept / sizeof *kept && kept[i] != capability)
            i++;
        if (i == sizeof kept / sizeof *kept && prctl(PR_CAPBSET_DROP, capability))
            fail("create", "drop capability %d: %s", capability, strerror(errno));
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        fail("create", "no_new_privs: %s", strerror(errno));
}

__attribute__((noreturn)) static void become_container(char **arguments, const sigset_t *unblocked) {
    char **program;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        fail("create", "/dev/null: %s", strerror(errno));
    program = run_operations(arguments);
    if (!root || !*program)
        fail("create", "a root and a program are needed");
    enter_root();
    drop_capabilities();
    sigprocmask(SIG_SETMASK, unblocked, NULL);
    environ = environment;
    execvpe(program[0], program, environment);
    fail("start", "exec: \"%s\": %s", program[0], strerror(errno));
}

static void write_file(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fail("create", "%s: %s%s", path, strerror(errno), REFUSED);
    close(fd);
}

static void enter_namespaces(void) {
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS))
        fail("create", "unshare: %s%s", strerror(errno), REFUSED);
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", gid);
    write_file("/proc/self/gid_map", map);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        fail("create", "private mounts: %s%s", strerror(errno), REFUSED);
}

/* Waits for the container's end; returns its exit status as a shell would. */
static int supervise(pid_t child, const sigset_t *signals) {
    struct pollfd events[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = signalfd(-1, signals, SFD_CLOEXEC), .events = POLLIN}};
    for (;;) {
        struct signalfd_siginfo received;
        int status;
        if (poll(events, 2, -1) < 0)
            return 125;
        if (events[0].revents) {
            kill(child, SIGKILL);
            events[0].fd = -1;
        }
        if (!(events[1].revents & POLLIN) || read(events[1].fd, &received, sizeof received) != sizeof received)
            continue;
        if (received.ssi_signo == SIGTERM)
            kill(child, SIGTERM);
        else if (received.ssi_signo == SIGUSR1)
            kill(child, SIGKILL);
        else if (waitpid(child, &status, WNOHANG) == child && (WIFEXITED(status) || WIFSIGNALED(status)))
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

/* Joins the namespaces of a container; children are in its pid namespace. */
static void join_namespaces(const char *launcher) {
    static const char *const names[] = {"user", "ipc", "uts", "pid_for_children", "mnt"};
    enum { COUNT = sizeof names / sizeof *names };
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%s/ns/%s", launcher, names[i]);
        if ((fds[i] = open(path, O_RDONLY | O_CLOEXEC)) < 0)
            fail("create", "%s: %s", path, strerror(errno));
    }
    for (int i = 0; i < COUNT; i++)
        if (setns(fds[i], 0))
            fail("create", "setns %s: %s", names[i], strerror(errno));
}

static int enter(char **arguments) {
    pid_t child;
    int status;
    char **program;
    status_fd = STDERR_FILENO;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    join_namespaces(arguments[0]);
    program = run_operations(arguments + 1);
    child = fork();
    if (child < 0)
        fail("create", "fork: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        drop_capabilities();
        execvpe(program[0], program, environment);
        dprintf(STDERR_FILENO, "exec: \"%s\": %s\n", program[0], strerror(errno));
        _exit(126);
    }
    if (waitpid(child, &status, 0) != child)
        return 125;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **arguments) {
    sigset_t signals, before;
    pid_t child;
    if (count < 3) {
        fprintf(stderr, "usage: %s STATUS_FD|enter PID OPERATION... -- PROGRAM [ARGUMENT...]\n", arguments[0]);
        return 2;
    }
    if (!strcmp(arguments[1], "enter"))
        return enter(arguments + 2);
    status_fd = atoi(arguments[1]);
    fcntl(status_fd, F_SETFD, FD_CLOEXEC);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    enter_namespaces();
    child = fork();
    if (child < 0)
        fail("create", "fork: %s", strerror(errno));
    if (!child)
        become_container(arguments + 2, &before);
    close(status_fd);
    return supervise(child, &signals);
}
