// Command calls makes system calls, one for each argument, and prints what came of it.
package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// x32 marks the numbers of another way to call the same kernel, on the same processor.
const x32 = 0x40000000

// calls are made with arguments that fail also where they are allowed, but otherwise.
var calls = map[string][4]uintptr{
	"bpf":               {unix.SYS_BPF, 9999, 0, 0},
	"io_uring_setup":    {unix.SYS_IO_URING_SETUP, 0, 0, 0},
	"io_uring_enter":    {unix.SYS_IO_URING_ENTER, 9999, 0, 0},
	"keyctl":            {unix.SYS_KEYCTL, 9999, 0, 0},
	"add_key":           {unix.SYS_ADD_KEY, 0, 0, 0},
	"request_key":       {unix.SYS_REQUEST_KEY, 0, 0, 0},
	"perf_event_open":   {unix.SYS_PERF_EVENT_OPEN, 0, 0, 0},
	"setns":             {unix.SYS_SETNS, 9999, 0, 0},
	"unshare":           {unix.SYS_UNSHARE, 1 << 60, 0, 0},
	"clone":             {unix.SYS_CLONE, unix.CLONE_NEWUSER | unix.CLONE_SIGHAND, 0, 0},
	"clone3":            {unix.SYS_CLONE3, 0, 0, 0},
	"userfaultfd":       {unix.SYS_USERFAULTFD, 0xffff, 0, 0},
	"fanotify_init":     {unix.SYS_FANOTIFY_INIT, 0xffff, 0, 0},
	"open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, 9999, 0, 0},
	"mount_setattr":     {unix.SYS_MOUNT_SETATTR, 9999, 0, 0},
	"quotactl":          {unix.SYS_QUOTACTL, 0, 0, 0},
	"x32 bpf":           {unix.SYS_BPF | x32, 9999, 0, 0},
	"getppid":           {unix.SYS_GETPPID, 0, 0, 0},
	"AF_UNIX":           {unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0},
	"AF_INET":           {unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0},
	"AF_INET6":          {unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_DGRAM, 0},
	"NETLINK_ROUTE":     {unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
	"NETLINK_AUDIT":     {unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
	"NETLINK_NETFILTER": {unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER},
	"AF_VSOCK":          {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0},
	"AF_VSOCK, high":    {unix.SYS_SOCKET, unix.AF_VSOCK | 1<<40, unix.SOCK_STREAM, 0},
	"AF_ALG":            {unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0},
	"AF_PACKET":         {unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0},
	"AF_KEY":            {unix.SYS_SOCKET, unix.AF_KEY, unix.SOCK_RAW, 2},
	"AF_XDP":            {unix.SYS_SOCKET, unix.AF_XDP, unix.SOCK_RAW, 0},
	"AF_BLUETOOTH":      {unix.SYS_SOCKET, unix.AF_BLUETOOTH, unix.SOCK_RAW, 0},
	"AF_TIPC":           {unix.SYS_SOCKET, unix.AF_TIPC, unix.SOCK_STREAM, 0},
	"AF_TIPC pair":      {unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0},
	"AF_RDS":            {unix.SYS_SOCKET, unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
	"AF_CAN":            {unix.SYS_SOCKET, unix.AF_CAN, unix.SOCK_RAW, 1},
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "connect" {
		fmt.Println(connect(os.Args[2]))
		return
	}
	for _, name := range os.Args[1:] {
		call := calls[name]
		_, _, errno := syscall.Syscall(call[0], call[1], call[2], call[3])
		fmt.Println(name, unix.ErrnoName(errno))
	}
}

// connect connects to a socket of the machine that has a name and no file.
func connect(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + name})
}
