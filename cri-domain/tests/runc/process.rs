//! Fields that are visible to the process itself.

use nri_proto::{Args, EnvVar, IoPriority, IoPriorityClass, Rlimit, Scheduler, SchedulerPolicy, Seccomp, Syscall};
use serde_json::json;

use crate::bundle::Bundle;

#[test]
fn the_environment_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::new() else { return };
    bundle.adjustment.env.remove("HTTP_PROXY");
    bundle.adjustment.env.set(EnvVar::new("A", "1\n2=3")).unwrap();
    let said = bundle.run("echo \"$A\"; echo \"${HTTP_PROXY-none}\"");
    assert_eq!(said, "1\n2=3\nnone\n");
}

#[test]
fn the_command_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::new() else { return };
    bundle.adjustment.args = Args::replace(["sh", "-c", "echo adjusted"]);
    assert_eq!(bundle.run("echo original"), "adjusted\n");
}

#[test]
fn a_limit_replaces_the_one_that_was_there() {
    let Some(mut bundle) = Bundle::new() else { return };
    for (kind, hard, soft) in [("RLIMIT_NOFILE", 512, 256), ("RLIMIT_CORE", 0, 0)] {
        bundle.adjustment.rlimits.push(Rlimit { kind: kind.to_owned(), hard, soft, ..Rlimit::default() });
    }
    assert_eq!(bundle.run("ulimit -Sn; ulimit -Hn; ulimit -Hc"), "256\n512\n0\n");
}

#[test]
fn the_oom_score_is_the_adjusted_one() {
    let Some(mut bundle) = Bundle::new() else { return };
    bundle.linux().oom_score_adj = Some(333);
    assert_eq!(bundle.run("cat /proc/self/oom_score_adj"), "333\n");
}

#[test]
fn a_system_call_fails_as_the_policy_says() {
    let Some(mut bundle) = Bundle::new() else { return };
    let denied = Syscall {
        names: vec!["mkdir".to_owned(), "mkdirat".to_owned()],
        action: "SCMP_ACT_ERRNO".to_owned(),
        errno_ret: Some(38),
        ..Syscall::default()
    };
    bundle.linux().seccomp_policy = Some(Seccomp {
        default_action: "SCMP_ACT_ALLOW".to_owned(),
        architectures: vec!["SCMP_ARCH_X86_64".to_owned(), "SCMP_ARCH_AARCH64".to_owned()],
        syscalls: vec![denied],
        ..Seccomp::default()
    });
    let said = bundle.run("mkdir /tmp/x 2>&1; grep -c 2 /proc/self/status >/dev/null; cat /proc/self/status");
    assert!(said.contains("Function not implemented"), "{said}");
    assert!(said.contains("Seccomp:\t2"), "{said}");
}

/// The policy allows the calls that the script needs. All other calls fail with the default errno.
#[test]
fn what_is_not_listed_fails_with_the_default_errno() {
    let Some(mut bundle) = Bundle::new() else { return };
    let needed = "access arch_prctl brk capget capset chdir clock_gettime clone close dup dup2 dup3 epoll_ctl \
        epoll_pwait eventfd2 execve exit exit_group faccessat2 fchdir fchown fcntl fstat fstatfs futex getcwd getdents64 \
        getegid geteuid getgid getpgrp getpid getppid getrandom getrlimit gettid getuid ioctl lseek lstat madvise mmap mount mprotect \
        munmap nanosleep newfstatat open openat pipe pipe2 pivot_root poll prctl pread64 prlimit64 read readlink \
        readlinkat rseq rt_sigaction rt_sigprocmask rt_sigreturn sched_getaffinity sched_yield set_robust_list set_tid_address \
        setgid setgroups sethostname setresgid setresuid setsid setuid sigaltstack stat statfs statx tgkill time umask \
        umount2 uname vfork wait4 write writev";
    let allowed = Syscall {
        names: needed.split_whitespace().map(str::to_owned).collect(),
        action: "SCMP_ACT_ALLOW".to_owned(),
        ..Syscall::default()
    };
    bundle.linux().seccomp_policy = Some(Seccomp {
        default_action: "SCMP_ACT_ERRNO".to_owned(),
        default_errno: Some(113),
        architectures: vec!["SCMP_ARCH_X86_64".to_owned(), "SCMP_ARCH_AARCH64".to_owned()],
        syscalls: vec![allowed],
        ..Seccomp::default()
    });
    let said = bundle.run("mkdir /tmp/x 2>&1; true");
    assert!(said.contains("No route to host"), "{said}");
}

#[test]
fn what_this_runc_does_not_know_keeps_no_container_from_running() {
    let Some(mut bundle) = Bundle::new() else { return };
    bundle.linux().io_priority = Some(IoPriority { class: IoPriorityClass::Idle, ..IoPriority::default() });
    bundle.linux().scheduler = Some(Scheduler { policy: SchedulerPolicy::Batch, ..Scheduler::default() });
    bundle.linux().memory_policy = Some(nri_proto::MemoryPolicy::default());
    bundle.linux().rdt = Some(nri_proto::Rdt { remove: true, ..nri_proto::Rdt::default() });
    assert_eq!(bundle.run("echo runs"), "runs\n");
    assert_eq!(bundle.spec["org.example.future"], json!(true));
}
