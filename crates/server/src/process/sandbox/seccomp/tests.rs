//! Runs the filter as the kernel would, call by call.

use super::*;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// To port 443.
const HTTPS: Connects = Connects::Ports([443, 0, 0, 0, 0, 0, 0, 0, 0]);
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const AUDIT_ARCHITECTURE: u32 = match ARCHITECTURE {
    TargetArch::x86_64 => 0xc000_003e,
    TargetArch::aarch64 => 0xc000_00b7,
    TargetArch::riscv64 => 0xc000_00f3,
};

/// The input of a filter (`struct seccomp_data`), as 32-bit words of a little-endian machine.
fn words(call: c_long, architecture: u32, arguments: [u64; 6]) -> Vec<u32> {
    let arguments = arguments.iter().flat_map(|a| [*a as u32, (*a >> 32) as u32]);
    [call as u32, architecture, 0, 0].into_iter().chain(arguments).collect()
}

/// Runs the instructions of a filter (bpf(4), as far as seccomp uses it).
fn run(program: &BpfProgram, words: &[u32]) -> u32 {
    let (mut accumulator, mut at) = (0u32, 0usize);
    while let Some(i) = program.get(at) {
        at += 1;
        let holds = match i.code {
            0x20 => {
                accumulator = words[i.k as usize / 4];
                continue;
            }
            0x54 => {
                accumulator &= i.k;
                continue;
            }
            0x05 => {
                at += i.k as usize;
                continue;
            }
            0x06 => return i.k,
            0x15 => accumulator == i.k,
            0x25 => accumulator > i.k,
            0x35 => accumulator >= i.k,
            other => panic!("an instruction {other:#x}"),
        };
        at += usize::from(if holds { i.jt } else { i.jf });
    }
    panic!("the program ends without a verdict");
}

#[track_caller]
fn check(connects: Connects, call: c_long, arguments: &[u64], expected: u32) {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let verdict = run(
        &program(connects, Pipes::None, Writes::Nowhere, Publishing::No).unwrap(),
        &words(call, AUDIT_ARCHITECTURE, all),
    );
    assert_eq!(verdict, expected, "call {call} with {arguments:?}, {connects:?}");
}

#[test]
fn allows_the_calls_of_serving() {
    for call in ALWAYS.iter().copied().flatten() {
        check(Connects::Nowhere, *call, &[u64::MAX; 6], ALLOW);
    }
}

#[test]
fn rejects_other_calls_as_unknown() {
    for call in [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_clone3,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setuid,
        libc::SYS_setresuid,
        libc::SYS_setgroups,
        libc::SYS_capset,
        // Landlock does not restrict these.
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_fsetxattr,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fallocate,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_mkdirat,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_mknodat,
        libc::SYS_listen,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_add_key,
        libc::SYS_keyctl,
        libc::SYS_init_module,
        libc::SYS_kexec_load,
        libc::SYS_personality,
        libc::SYS_seccomp,
    ] {
        for connects in [Connects::Nowhere, Connects::Unix, HTTPS] {
            check(connects, call, &[], ABSENT);
        }
    }
}

#[test]
fn allows_some_calls_only_with_certain_arguments() {
    let own = u64::from(std::process::id());
    let thread = THREAD as u64 | libc::CLONE_SETTLS as u64;
    let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    // The kernel ignores the upper half of an `int`; so must the filter.
    let high = 1 << 32;
    for (call, arguments, expected) in [
        (libc::SYS_clone, vec![thread], ALLOW),
        (libc::SYS_clone, vec![libc::SIGCHLD as u64], ABSENT),
        (libc::SYS_clone, vec![(libc::CLONE_VM | libc::CLONE_VFORK) as u64], ABSENT),
        (libc::SYS_clone, vec![thread | libc::CLONE_NEWUSER as u64], ABSENT),
        (libc::SYS_mmap, vec![0, 4096, (libc::PROT_READ | libc::PROT_WRITE) as u64], ALLOW),
        (libc::SYS_mmap, vec![0, 4096, executable], ABSENT),
        (libc::SYS_mprotect, vec![0, 4096, libc::PROT_NONE as u64], ALLOW),
        (libc::SYS_mprotect, vec![0, 4096, executable], ABSENT),
        (libc::SYS_ioctl, vec![5, u64::from(libc::TIOCOUTQ as u32)], ALLOW),
        (libc::SYS_ioctl, vec![5, u64::from(libc::TIOCSTI as u32)], ABSENT),
        (libc::SYS_ioctl, vec![5, high | u64::from(libc::TIOCSTI as u32)], ABSENT),
        (libc::SYS_prctl, vec![libc::PR_SET_NAME as u64], ALLOW),
        (libc::SYS_prctl, vec![libc::PR_SET_DUMPABLE as u64, 1], ABSENT),
        (libc::SYS_prlimit64, vec![0, 7, 0, 4096], ALLOW),
        (libc::SYS_prlimit64, vec![0, 7, 4096, 0], ABSENT),
        (libc::SYS_prlimit64, vec![0, 7, high, 0], ABSENT),
        (libc::SYS_prlimit64, vec![own + 1, 7, 0, 4096], ABSENT),
        (libc::SYS_tgkill, vec![own, 1, 6], ALLOW),
        (libc::SYS_tgkill, vec![own + 1, 1, 6], ABSENT),
        (libc::SYS_socketpair, vec![libc::AF_UNIX as u64], ALLOW),
        (libc::SYS_socketpair, vec![libc::AF_INET as u64], ABSENT),
    ] {
        check(Connects::Nowhere, call, &arguments, expected);
    }
}

#[test]
fn allows_sockets_of_the_permitted_families() {
    use Connects::{Nowhere, Unix};
    for (family, nowhere, unix, ports) in [
        (libc::AF_UNIX, ABSENT, ALLOW, ABSENT),
        (libc::AF_INET, ABSENT, ABSENT, ALLOW),
        (libc::AF_INET6, ABSENT, ABSENT, ALLOW),
        (libc::AF_NETLINK, ABSENT, ABSENT, ABSENT),
        (libc::AF_PACKET, ABSENT, ABSENT, ABSENT),
        (libc::AF_ALG, ABSENT, ABSENT, ABSENT),
        (libc::AF_VSOCK, ABSENT, ABSENT, ABSENT),
    ] {
        for (connects, expected) in [(Nowhere, nowhere), (Unix, unix), (HTTPS, ports)] {
            check(connects, libc::SYS_socket, &[family as u64], expected);
        }
    }
    for (connects, expected) in [(Nowhere, ABSENT), (Unix, ALLOW), (HTTPS, ALLOW)] {
        check(connects, libc::SYS_connect, &[3], expected);
        check(connects, libc::SYS_bind, &[3], expected);
    }
}

#[test]
fn allows_pipes_for_scripts() {
    for (pipes, expected) in [(Pipes::None, ABSENT), (Pipes::Made, ALLOW)] {
        let words = words(libc::SYS_pipe2, AUDIT_ARCHITECTURE, [0; 6]);
        assert_eq!(
            run(&program(Connects::Nowhere, pipes, Writes::Nowhere, Publishing::No).unwrap(), &words),
            expected,
            "{pipes:?}"
        );
    }
    for call in [libc::SYS_execve, libc::SYS_vmsplice, libc::SYS_splice, libc::SYS_tee] {
        let words = words(call, AUDIT_ARCHITECTURE, [0; 6]);
        assert_eq!(
            run(&program(Connects::Nowhere, Pipes::Made, Writes::Nowhere, Publishing::No).unwrap(), &words),
            ABSENT,
            "{call}"
        );
    }
}

#[test]
fn a_call_of_another_architecture_kills_the_process() {
    for architecture in [0x4000_0003, 0x4000_0028] {
        let verdict = run(
            &program(Connects::Nowhere, Pipes::None, Writes::Nowhere, Publishing::No).unwrap(),
            &words(libc::SYS_read, architecture, [0; 6]),
        );
        assert_eq!(verdict, libc::SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn a_process_with_channels_can_neither_open_nor_connect_nor_read() {
    let program = program_of_channels().unwrap();
    let verdict = |call, first| run(&program, &words(call, AUDIT_ARCHITECTURE, [first, 0, 0, 0, 0, 0]));
    for call in [libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_ppoll, libc::SYS_getrandom, libc::SYS_futex]
    {
        assert_eq!(verdict(call, 0), ALLOW, "call {call}");
    }
    assert_eq!((verdict(libc::SYS_write, 2), verdict(libc::SYS_write, 3)), (ALLOW, ABSENT));
    for call in [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_accept4,
        libc::SYS_connect,
        libc::SYS_execve,
        libc::SYS_kill,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_prctl,
    ] {
        assert_eq!(verdict(call, 0), ABSENT, "call {call}");
    }
}

#[test]
fn only_a_process_that_stores_responses_changes_files() {
    for call in TO_WRITE {
        for (writes, expected) in [(Writes::Nowhere, ABSENT), (Writes::Beneath("/a".as_ref()), ALLOW)] {
            let program = program(Connects::Nowhere, Pipes::None, writes, Publishing::No).unwrap();
            assert_eq!(
                run(&program, &words(*call, AUDIT_ARCHITECTURE, [0; 6])),
                expected,
                "{call} {writes:?}"
            );
        }
    }
}

#[test]
fn only_a_process_that_publishes_locks_and_syncs_files() {
    for call in TO_WRITE.iter().chain(TO_PUBLISH) {
        for (publishing, expected) in [(Publishing::No, ABSENT), (Publishing::Yes, ALLOW)] {
            let program = program(Connects::Nowhere, Pipes::None, Writes::Nowhere, publishing).unwrap();
            let verdict = run(&program, &words(*call, AUDIT_ARCHITECTURE, [0; 6]));
            assert_eq!(verdict, expected, "{call} {publishing:?}");
        }
    }
}
