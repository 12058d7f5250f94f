package allocdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/internal/openat2"
)

// DefaultSecretsMB is how large a secrets directory in memory is that its job says nothing of, as with
// Nomad.
const DefaultSecretsMB = 1

// filesPerMB bounds the files in a secrets directory in memory, as empty ones take memory as well.
const filesPerMB = 1024

// secretsSource is the name that the mounts of secrets directories have in lists of mounts.
const secretsSource = "wasmnode-secrets"

// ReadySecrets has the secrets directory be there before a start of its task, which does not run.
// In memory: as a file system of that many MiB that is never on a disk; one that is there already
// stays with what is in it, and what was on the disk before is removed. What a task laid in its place
// is removed, too, whatever it leads to.
func (t *TaskDir) ReadySecrets(inMemory bool, mb int) error {
	if err := t.readySecrets(inMemory, mb); err != nil {
		return fmt.Errorf("allocdir: the secrets directory: %w", WithoutPath(err))
	}
	return nil
}

func (t *TaskDir) readySecrets(inMemory bool, mb int) error {
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(SecretsName)
	switch {
	case err == nil && info.IsDir():
		if !inMemory || isMount(t.Path, SecretsName) {
			return nil
		}
		if isEmpty(root, SecretsName) { // as it was built
			return t.mountSecrets(mb)
		}
		fallthrough
	case err == nil:
		err = root.RemoveAll(SecretsName)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil {
		err = root.Mkdir(SecretsName, 0o700)
	}
	if err == nil {
		err = root.Chmod(SecretsName, modeSecrets)
	}
	if err != nil || !inMemory {
		return err
	}
	return t.mountSecrets(mb)
}

// isEmpty reports whether a directory has nothing in it.
func isEmpty(root *os.Root, name string) bool {
	dir, err := root.Open(name)
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.ReadDir(1)
	return errors.Is(err, io.EOF)
}

func (t *TaskDir) mountSecrets(mb int) error {
	failpoint.Here("secrets.mount")
	err := mountMemory(t.Path, SecretsName, mb)
	failpoint.Here("secrets.mounted")
	if err == nil && !isMount(t.Path, SecretsName) {
		err = errors.New("it was replaced while it was mounted")
	}
	return err
}

// ReturnSecrets has the secrets directory of a task that runs be in memory again, where it was unmounted
// meanwhile: nothing is to be written to the disk. It reports whether it was. One on the disk that
// has something in it stays, as the task may use that; so does one that the task has replaced.
func (t *TaskDir) ReturnSecrets(mb int) (returned bool, err error) {
	if isMount(t.Path, SecretsName) {
		return false, nil
	}
	fd, err := openDirectory(t.Path, SecretsName)
	if err != nil {
		return false, nil
	}
	dir, err := os.ReadDir("/proc/self/fd/" + strconv.Itoa(fd))
	_ = unix.Close(fd) // nothing was written to it
	if err != nil || len(dir) > 0 {
		return false, nil
	}
	if err := t.mountSecrets(mb); err != nil {
		return false, fmt.Errorf("allocdir: the secrets directory: %w", WithoutPath(err))
	}
	return true, nil
}

// InSecrets reports whether a path of a job's, as for [TaskDir.Place], is in the secrets directory.
func (t *TaskDir) InSecrets(path string) bool {
	dir, rel, err := t.locate(path)
	if err != nil || dir != t.Path {
		return false
	}
	_, in := within(SecretsName, rel)
	return in
}

// SecretsSince tells one secrets directory from another that took its place; empty: there is none,
// or the file system does not tell.
func (t *TaskDir) SecretsSince() string {
	fd, err := openDirectory(t.Path, SecretsName)
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	var is unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &is) != nil || is.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%09d", is.Btime.Sec, is.Btime.Nsec)
}

// DropSecrets removes a secrets directory in memory with all that is in it, when its task has ended
// for good.
func (t *TaskDir) DropSecrets() error {
	for isMount(t.Path, SecretsName) {
		if err := detach(t.Secrets); err != nil {
			return fmt.Errorf("allocdir: the secrets directory: %w", WithoutPath(err))
		}
	}
	return nil
}

// openDirectory opens a directory below another one by its name, and nothing that a link leads to.
func openDirectory(parent, name string) (int, error) {
	dir, err := unix.Open(parent, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(dir) }()
	return unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// isMount reports whether a directory is the top of a file system in memory.
func isMount(parent, name string) bool {
	fd, err := openDirectory(parent, name)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	var above, here unix.Stat_t
	var system unix.Statfs_t
	return unix.Lstat(parent, &above) == nil && unix.Fstat(fd, &here) == nil && above.Dev != here.Dev &&
		unix.Fstatfs(fd, &system) == nil && system.Type == unix.TMPFS_MAGIC
}

// swaps is that the kernel cannot keep a file system in memory from being swapped out, as before Linux 6.4. It
// writes to the machine's console each time that it is asked to.
var swaps atomic.Bool

// mountMemory mounts a file system in memory on a directory. The directory is open meanwhile: whoever
// changes names has nothing else mounted on.
func mountMemory(parent, name string, mb int) error {
	fd, err := openDirectory(parent, name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	options := fmt.Sprintf("mode=0700,size=%dm,nr_inodes=%d", mb, mb*filesPerMB)
	at := "/proc/self/fd/" + strconv.Itoa(fd)
	if !swaps.Load() {
		err = unix.Mount(secretsSource, at, "tmpfs", flags, options+",noswap")
		if !errors.Is(err, unix.EINVAL) {
			return os.NewSyscallError("mount", err)
		}
	}
	if err = unix.Mount(secretsSource, at, "tmpfs", flags, options); err == nil {
		swaps.Store(true)
	}
	return os.NewSyscallError("mount", err)
}

// SecretsInMemory reports whether tasks can have their secrets directories in memory, below a
// directory that there is, and why not. It tries it. Where the agent's mounts are not the machine's,
// neither the next agent nor a container engine would see them.
func SecretsInMemory(allocsDir string) (why string, can bool) {
	if os.Geteuid() != 0 {
		return "the agent is not root", false
	}
	if own, err := os.Readlink("/proc/self/ns/pid"); err != nil || own != machinesPIDs {
		return "the agent runs in a container", false
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err == nil && own != machinesMounts {
		var first string
		if first, err = os.Readlink("/proc/1/ns/mnt"); err == nil && own != first {
			return "the agent has mounts of its own, which no other agent would see", false
		}
	}
	if err != nil {
		return "it cannot be told whether the agent's mounts are the machine's: " + WithoutPath(err).Error(), false
	}
	if err := tryMount(allocsDir); err != nil {
		return "the agent may not mount: " + err.Error(), false
	}
	return "", true
}

// tryMount mounts as for a task, and leaves nothing behind, of an earlier try that was interrupted
// neither.
func tryMount(allocsDir string) error {
	const name = ".secrets"
	dir := filepath.Join(allocsDir, name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return WithoutPath(err)
	}
	defer os.Remove(dir)
	err := detach(dir)
	if err == nil {
		err = mountMemory(allocsDir, name, DefaultSecretsMB)
	}
	if err == nil {
		err = detach(dir)
	}
	return err
}

// The namespaces that Linux makes at boot. That of mounts has this number with newer ones, and
// with older ones no namespace has it.
const (
	machinesPIDs   = "pid:[4026531836]"
	machinesMounts = "mnt:[4026531832]"
)

// UnmountBelow detaches all that is mounted below a directory, the deepest first: what is in use stays
// for those who use it. Nothing that is mounted there is removed with the directory then. An agent that
// is not root has mounted nothing.
func UnmountBelow(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return fmt.Errorf("allocdir: %w", err)
	}
	points, err := mountsBelow(dir)
	if err != nil {
		return fmt.Errorf("allocdir: what is mounted in %s: %w", dir, err)
	}
	for i := len(points) - 1; i >= 0; i-- { // a list has what is above first
		err = errors.Join(err, detach(points[i]))
	}
	if err != nil {
		return fmt.Errorf("allocdir: %w", err)
	}
	return nil
}

// mountsBelow are the places below a directory where something is mounted.
func mountsBelow(dir string) (points []string, err error) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescaped.Replace(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	return points, nil
}

// unescaped undoes what the kernel writes in lists of mounts.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// detach takes a mount out of the tree of files. No link leads elsewhere. What is not mounted is not
// an error.
func detach(point string) error {
	fd, err := openat2.Path(unix.AT_FDCWD, point, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
		err = unix.Unmount("/proc/self/fd/"+strconv.Itoa(fd), unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return &os.PathError{Op: "unmount", Path: point, Err: err}
	}
	return nil
}
