package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/durable"
)

// in is what a directory has, by name.
func in(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all[e.Name()] = string(content)
	}
	return all
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func all(string) bool { return true }

func TestAFileIsReplacedWithItsMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for i, mode := range []fs.FileMode{0o600, 0o666, 0o444, 0o600} { // 0666 is more than the umask leaves
		content := fmt.Sprint("content ", i)
		require.NoError(t, durable.Replace(path, []byte(content), mode))
		require.Equal(t, map[string]string{"file": content}, in(t, dir))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode())
	}
	require.ErrorIs(t, durable.Replace(filepath.Join(dir, "none", "file"), nil, 0o600), fs.ErrNotExist)
	require.Error(t, durable.Replace(dir, nil, 0o600), "a directory is not replaced")
	require.Equal(t, map[string]string{"file": "content 3"}, in(t, dir))
}

func TestAFileThatIsThereIsNotMadeAnew(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, want := range []error{nil, fs.ErrExist} {
		f, err := durable.Begin(path, 0o600)
		require.NoError(t, err)
		_, err = fmt.Fprint(f, want)
		require.NoError(t, err)
		require.ErrorIs(t, f.CommitNew(), want)
		f.Drop()
		require.Equal(t, map[string]string{"file": "<nil>"}, in(t, dir))
	}
}

// TestAWriteMayBeCutOffAnywhere has a program die at each point of one. There is the whole file or
// none of it, what is left is taken away by the next write or a sweep, and nothing is in their way.
func TestAWriteMayBeCutOffAnywhere(t *testing.T) {
	program := filepath.Join(t.TempDir(), "write")
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./testdata/write").CombinedOutput()
	require.NoError(t, err, "%s", out)
	const left = ".file.unfinished"
	for _, c := range []struct {
		how, point, old string
		after           map[string]string
	}{
		{"replace", "durable.made", "old", map[string]string{"file": "old", left: ""}},
		{"replace", "begun", "old", map[string]string{"file": "old", left: ""}},
		{"replace", "half", "old", map[string]string{"file": "old", left: "new "}},
		{"replace", "written", "old", map[string]string{"file": "old", left: "new content"}},
		{"replace", "renamed", "old", map[string]string{"file": "new content"}},
		{"new", "durable.made", "", map[string]string{left: ""}},
		{"new", "written", "", map[string]string{left: "new content"}},
		{"new", "durable.linked", "", map[string]string{"file": "new content", left: "new content"}},
	} {
		t.Run(c.how+" "+c.point, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			die := func() {
				if c.old != "" {
					write(t, path, c.old)
				}
				cmd := exec.Command(program, c.how, path)
				cmd.Env = append(os.Environ(), "WASMNODE_FAILPOINT="+c.how+"/"+c.point+":1")
				err := cmd.Run()
				var exit *exec.ExitError
				require.ErrorAs(t, err, &exit)
				require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
				require.Equal(t, c.after, in(t, dir))
			}
			die()
			swept, err := durable.Sweep(dir, all)
			require.NoError(t, err)
			if _, is := c.after[left]; is {
				require.Equal(t, []string{left}, swept)
			}
			require.NotContains(t, in(t, dir), left)
			_ = os.Remove(path)
			die()
			require.NoError(t, durable.Replace(path, []byte("next"), 0o600))
			require.Equal(t, map[string]string{"file": "next"}, in(t, dir))
		})
	}
}

func TestWhatSomebodyWritesIsNotSwept(t *testing.T) {
	dir := t.TempDir()
	used, err := durable.Begin(filepath.Join(dir, "used"), 0o600)
	require.NoError(t, err)
	defer used.Drop()
	write(t, filepath.Join(dir, ".left.unfinished"), "secret")
	kept := []string{".other.unfinished", ".hidden", "unfinished", "a.unfinished", ".b"}
	for _, name := range kept {
		write(t, filepath.Join(dir, name), "")
	}
	require.NoError(t, os.Symlink("unfinished", filepath.Join(dir, ".link.unfinished")))
	removed, err := durable.Sweep(dir, func(name string) bool { return name != "other" })
	require.NoError(t, err)
	require.Equal(t, []string{".left.unfinished"}, removed)
	_, err = used.WriteString("whole")
	require.NoError(t, err)
	require.NoError(t, used.Commit())
	used.Drop() // does nothing any more
	there := in(t, dir)
	require.Equal(t, "whole", there["used"])
	require.Len(t, there, len(kept)+2)
	_, err = durable.Sweep(filepath.Join(dir, "none"), all)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestAWriteWaitsForAnother, and gives up in the end.
func TestAWriteWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		first, err := durable.Begin(path, 0o600)
		require.NoError(t, err)
		_, err = durable.Begin(path, 0o600)
		require.ErrorIs(t, err, durable.ErrBusy)
		require.EqualError(t, err, path+": another process is writing it: try again when it is done")
		second := make(chan error)
		go func() { second <- durable.Replace(path, []byte("second"), 0o600) }()
		synctest.Wait() // it has found the first
		require.NoError(t, first.Commit())
		require.NoError(t, <-second)
		require.Equal(t, map[string]string{"file": "second"}, in(t, filepath.Dir(path)))
	})
}

// TestWhatIsInTheWayIsNotFollowedAndNotRemoved: nobody has what is written who laid it there.
func TestWhatIsInTheWayIsNotFollowedAndNotRemoved(t *testing.T) {
	for name, lay := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "elsewhere"), "theirs")
			laid := filepath.Join(dir, ".file.unfinished")
			require.NoError(t, lay(laid))
			require.ErrorContains(t, durable.Replace(filepath.Join(dir, "file"), []byte("secret"), 0o600), laid)
			_, err := os.Lstat(laid)
			require.NoError(t, err)
			require.NoFileExists(t, filepath.Join(dir, "file"))
			content, err := os.ReadFile(filepath.Join(dir, "elsewhere"))
			require.NoError(t, err)
			require.Equal(t, "theirs", string(content))
		})
	}
}

// TestManyWriteOneFile, and sweep meanwhile: who reads it always finds one of them whole.
func TestManyWriteOneFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, durable.Replace(path, []byte(strings.Repeat("a", 1000)), 0o600))
	var writers, others sync.WaitGroup
	stop := make(chan struct{})
	meanwhile := func(do func() error) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	meanwhile(func() error {
		content, err := os.ReadFile(path)
		if err == nil && (len(content) != 1000 || strings.Trim(string(content), string(content[:1])) != "") {
			err = errors.New("it is not whole")
		}
		return err
	})
	meanwhile(func() error {
		_, err := durable.Sweep(dir, all)
		return err
	})
	for w := range 4 {
		content := strings.Repeat(string(rune('a'+w)), 1000)
		writers.Go(func() {
			for range 10 {
				if err := durable.Replace(path, []byte(content), 0o600); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	others.Wait()
	require.Len(t, in(t, dir), 1)
}
