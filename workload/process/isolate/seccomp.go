package isolate

import (
	"fmt"
	"slices"
	"sync"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/workload/process/forkexec"
)

// refused are the system calls that change the node or other namespaces, or that no
// task needs and whose kernel code has been a way out before. Most want capabilities
// that a task has not; this holds also where the kernel is wrong.
var refused = []string{
	// mounts, roots and namespaces
	"mount", "umount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"setns", "unshare", "open_by_handle_at",
	// the kernel itself
	"bpf", "init_module", "finit_module", "delete_module", "create_module", "query_module", "get_kernel_syms", "kexec_load",
	"kexec_file_load", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "lookup_dcookie",
	"add_key", "request_key", "keyctl", "nfsservctl", "_sysctl", "sysfs", "uselib", "ustat", "vm86", "vm86old", "personality",
	// the machine
	"reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "stime", "clock_settime", "clock_settime64",
	"clock_adjtime", "clock_adjtime64", "adjtimex", "iopl", "ioperm", "syslog", "vhangup", "sethostname", "setdomainname",
	"fanotify_init",
}

// families are the kinds of sockets that there are for tasks. The machine's network is theirs
// too, so that no namespace keeps them from the others: those that reach the machine that a
// virtual one runs on (AF_VSOCK), other machines below the network's rules, or the kernel's
// own keys and ciphers (AF_ALG, AF_KEY).
var families = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// otherFamily is true of none of those. Bits that the kernel does not look at make another
// family of it, too.
func otherFamily() (c seccomp.ArgumentConditions) {
	for _, family := range families {
		c = append(c, seccomp.Condition{Argument: 0, Operation: seccomp.NotEqual, Value: family})
	}
	return c
}

// otherNetlink is true of what is not the list of addresses and routes, which C libraries
// read: of audit, packet filters and the like.
func otherNetlink() seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_NETLINK},
		{Argument: 2, Operation: seccomp.NotEqual, Value: unix.NETLINK_ROUTE},
	}
}

const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filterSyscalls adds what has a thread, and all that it executes and starts, refused these calls.
func filterSyscalls(c *forkexec.Calls) error {
	filters, err := filters()
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	for _, f := range filters {
		prctl(c, "seccomp", unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, forkexec.Keep(c, f))
	}
	return nil
}

// filters are made once: they are the same for all.
var filters = sync.OnceValues(func() (made []*unix.SockFprog, err error) {
	info, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	known := slices.DeleteFunc(slices.Clone(refused), func(name string) bool {
		_, ok := info.SyscallNames[name]
		return !ok
	})
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{
			{Names: known, Action: errno(unix.EPERM)},
			{NamesWithCondtions: []seccomp.NameWithConditions{{
				Name:       "clone",
				Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: namespaceFlags}},
			}}, Action: errno(unix.EPERM)},
			// All of one call's conditions are in one group: what comes after it is not asked.
			{NamesWithCondtions: []seccomp.NameWithConditions{
				{Name: "socket", Conditions: otherFamily()},
				{Name: "socket", Conditions: otherNetlink()},
				{Name: "socketpair", Conditions: otherFamily()},
			}, Action: errno(unix.EAFNOSUPPORT)},
			// Its flags lie in memory, where a filter cannot see them; C libraries fall back
			// to clone.
			{Names: []string{"clone3"}, Action: errno(unix.ENOSYS)},
		},
	}
	refuse, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	for _, instructions := range [][]bpf.Instruction{killForeign(uint32(info.ID)), refuse} {
		program, err := assemble(instructions)
		if err != nil {
			return nil, err
		}
		made = append(made, program)
	}
	return made, nil
})

func assemble(instructions []bpf.Instruction) (*unix.SockFprog, error) {
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return nil, err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}, nil
}

func errno(e unix.Errno) seccomp.Action { return seccomp.ActionErrno | seccomp.Action(e) }

// killForeign ends a process that makes system calls by another architecture's numbers, as
// 32-bit programs do: filters judge the own numbers only.
func killForeign(native uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4}, // the architecture, in seccomp_data
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: native, SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	}
}
