package managers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/structs"
)

// patient bounds how long a test waits for what must happen; compiling a guest takes
// half a minute under the race detector, on a machine with nothing else to do.
const patient = 5 * time.Minute

// dirWorld is a catalog on a real directory, with fake plugins.
type dirWorld struct {
	t       *testing.T
	dir     string
	loader  *fakeLoader
	catalog *Catalog
	manager *DriverManager
}

func newDirWorld(t *testing.T, dir string) *dirWorld {
	t.Helper()
	return newDirWorldThatLooks(t, dir, 0)
}

// newDirWorldThatLooks makes one whose directory is looked at so often, without
// notifications; 0: with them.
func newDirWorldThatLooks(t *testing.T, dir string, lookEvery time.Duration) *dirWorld {
	t.Helper()
	w := &dirWorld{t: t, dir: dir, loader: &fakeLoader{}}
	var err error
	w.catalog, err = NewCatalog(CatalogConfig{Dir: dir, Loader: w.loader, Logger: hclog.NewNullLogger(), LookEvery: lookEvery})
	require.NoError(t, err)
	w.manager = NewDriverManager(DriverManagerConfig{
		Catalog: w.catalog, Workloads: &fakeWorkloads{}, Logger: hclog.NewNullLogger(),
		Updater: func(string, *structs.DriverInfo) {},
	})
	t.Cleanup(func() {
		w.manager.Shutdown()
		w.catalog.Shutdown()
		require.Zero(t, w.loader.openCount(), "every plugin is closed")
	})
	return w
}

// start starts the catalog and waits for the first look.
func (w *dirWorld) start() {
	w.t.Helper()
	w.catalog.Start()
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	require.NoError(w.t, w.manager.WaitForFirstFingerprint(ctx))
}

// drop renames a file into the directory.
func (w *dirWorld) drop(name string, r recipe) {
	w.t.Helper()
	tmp := filepath.Join(w.dir, "."+name)
	require.NoError(w.t, os.WriteFile(tmp, r.module(w.t), 0o644))
	require.NoError(w.t, os.Rename(tmp, filepath.Join(w.dir, name)))
}

func (w *dirWorld) remove(name string) {
	w.t.Helper()
	require.NoError(w.t, os.Remove(filepath.Join(w.dir, name)))
}

// lines are the statuses, short.
func (w *dirWorld) lines() []string {
	lines := []string{}
	for _, s := range w.catalog.Status() {
		line := fmt.Sprintf("%s %s %s %s", filepath.Base(s.File), s.Name, s.Version, s.State)
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// until waits for the statuses to be these.
func (w *dirWorld) until(want ...string) {
	w.t.Helper()
	if want == nil {
		want = []string{}
	}
	require.EventuallyWithT(w.t, func(c *assert.CollectT) { require.Equal(c, want, w.lines()) }, patient, 5*time.Millisecond)
}

func TestFilesAreLoadedReplacedAndRemovedWhileTheNodeRuns(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.start()
	require.Equal(t, []string{"a.wasm a 1.0.0 healthy"}, w.lines())

	w.drop("b.wasm", recipe{Name: "b", Version: "1.0.0"})
	w.until("a.wasm a 1.0.0 healthy", "b.wasm b 1.0.0 healthy")
	d, err := w.manager.Dispense("b")
	require.NoError(t, err)
	w.drop("b.wasm", recipe{Name: "b", Version: "1.1.0"})
	w.until("a.wasm a 1.0.0 healthy", "b.wasm b 1.1.0 healthy")
	<-d.Replaced()
	require.Equal(t, 3, w.loader.openCount(), "the old version is in use")
	d.Release()
	require.Eventually(t, func() bool { return w.loader.openCount() == 2 }, patient, time.Millisecond, "it is closed once nobody uses it")

	w.remove("b.wasm")
	w.until("a.wasm a 1.0.0 healthy")
	_, err = w.manager.Dispense("b")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))

	s := w.catalog.Status()[0]
	require.Equal(t, []string{abi.ModuleABI, abi.ModuleLog}, s.CapabilitiesImported)
	require.Equal(t, []string{abi.ModuleABI}, s.CapabilitiesGranted)
	require.Len(t, s.Digest, 64)
	require.Equal(t, TypeDriver, s.Type)
}

func TestAFileInUseIsListedAsRemovedUntilItsTasksEnd(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.start()
	d, err := w.manager.Dispense("a")
	require.NoError(t, err)
	w.remove("a.wasm")
	w.until("a.wasm a 1.0.0 removed: its file was removed")
	d.Release()
	w.until()
}

// TestACopyInProgressIsNotAPlugin is on a clock that stands still while anything works: on
// a real one, a copy that is held up for a second is no longer in progress.
func TestACopyInProgressIsNotAPlugin(t *testing.T) {
	content := recipe{Name: "a", Version: "1.0.0", TaskSchema: `{"description":"` + strings.Repeat("x", 4000) + `"}`}.module(t)
	synctest.Test(t, func(t *testing.T) {
		w := newDirWorldThatLooks(t, t.TempDir(), 10*time.Millisecond)
		w.start()
		f, err := os.Create(filepath.Join(w.dir, "a.wasm"))
		require.NoError(t, err)
		for part := range 8 {
			_, err = f.Write(content[part*len(content)/8 : (part+1)*len(content)/8])
			require.NoError(t, err)
			require.Zero(t, w.loader.madeCount())
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			for _, line := range w.lines() {
				require.NotContains(t, line, "rejected")
			}
		}
		require.NoError(t, f.Close())
		require.Equal(t, []string{"a.wasm a 1.0.0 healthy"}, w.lines())
		require.Equal(t, 1, w.loader.madeCount(), "loaded once")
	})
}

func TestATruncatedFileIsRejectedAndTakenWhenItIsComplete(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.start()
	content := recipe{Name: "a", Version: "1.0.0"}.module(t)
	path := filepath.Join(w.dir, "a.wasm")
	require.NoError(t, os.WriteFile(path, content[:len(content)-3], 0o644))
	w.until("a.wasm rejected: unexpected end of JSON input")
	require.NoError(t, os.WriteFile(path, content, 0o644))
	w.until("a.wasm a 1.0.0 healthy")
}

func TestAFileThatDoesNotLoadLeavesTheOldVersionInCharge(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.drop("a.wasm", recipe{Name: "a", Version: "2.0.0", LoadError: "policy: needs everything"})
	w.until("a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: policy: needs everything")
	w.drop("a.wasm", recipe{Name: "a", Version: "2.0.0", ConfigureErr: "no"})
	w.until("a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: configure: no")
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.until("a.wasm a 1.0.0 healthy")
	w.drop("a.wasm", recipe{Name: "a", Version: "3.0.0"})
	w.until("a.wasm a 3.0.0 healthy")
}

func TestOfTwoFilesWithOneNameTheFirstStaysUntilItIsRemoved(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("b.wasm", recipe{Name: "x", Version: "1.0.0"})
	w.start()
	w.drop("a.wasm", recipe{Name: "x", Version: "2.0.0"})
	w.until(`a.wasm x 2.0.0 rejected: the driver "x" is already provided by b.wasm; remove one of the two files`, "b.wasm x 1.0.0 healthy")
	w.drop("b.wasm", recipe{Name: "x", Version: "1.1.0"})
	w.until(`a.wasm x 2.0.0 rejected: the driver "x" is already provided by b.wasm; remove one of the two files`, "b.wasm x 1.1.0 healthy")
	w.remove("b.wasm")
	w.until("a.wasm x 2.0.0 healthy")
	w.drop("c.wasm", recipe{Name: "x", Version: "3.0.0"})
	w.until("a.wasm x 2.0.0 healthy", `c.wasm x 3.0.0 rejected: the driver "x" is already provided by a.wasm; remove one of the two files`)
	// The name is free as well when the file has another plugin in it.
	w.drop("a.wasm", recipe{Name: "y", Version: "1.0.0"})
	w.until("a.wasm y 1.0.0 healthy", "c.wasm x 3.0.0 healthy")
}

// TestAtTheStartTheFirstFileByNameHasTheName is on a clock that stands still while
// anything works: no file waits for ever for those before it.
func TestAtTheStartTheFirstFileByNameHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirWorldThatLooks(t, t.TempDir(), time.Second)
		for i := range 10 {
			w.drop(fmt.Sprintf("%c.wasm", 'a'+i), recipe{Name: "x", Version: "1.0.0", Pad: i})
		}
		w.start()
		for i, line := range w.lines() {
			if i == 0 {
				require.Equal(t, "a.wasm x 1.0.0 healthy", line)
				continue
			}
			require.Contains(t, line, `is already provided by a.wasm`)
		}
	})
}

func TestAQuarantinedPluginIsRevivedByTouchingItsFile(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	var broken atomic.Bool
	broken.Store(true)
	w.loader.prepare = func(p *fakePlugin) {
		well := p.ops[abi.OpDriverFingerprint]
		p.on(abi.OpDriverFingerprint, func(ctx context.Context, c Call) error {
			if broken.Load() {
				return trap(c.Op)
			}
			return well(ctx, c)
		})
	}
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.until("a.wasm a 1.0.0 quarantined: faulted 4 times, last: plugin fake trapped in driver_fingerprint: unreachable; to revive it, replace its file or touch it")
	broken.Store(false)
	now := time.Now()
	require.NoError(t, os.Chtimes(filepath.Join(w.dir, "a.wasm"), now, now))
	w.until("a.wasm a 1.0.0 healthy")
	require.Equal(t, 1, w.loader.madeCount(), "its content is the same")
}

func TestFilesThatAreNoPluginsEachSayWhy(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), content, 0o644))
	}
	w.drop("good.wasm", recipe{Name: "good", Version: "1.0.0"})
	write("text.wasm", []byte("hello"))
	write("large.wasm", make([]byte, 1<<16+1))
	require.NoError(t, os.Mkdir(filepath.Join(w.dir, "dir.wasm"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(w.dir, "link.wasm")))
	write("README.md", []byte("ignored"))
	write(".hidden.wasm", []byte("ignored"))
	w.drop("device.wasm", recipe{Name: "d", Type: "device"})
	w.start()
	require.Equal(t, []string{
		"device.wasm d rejected: a plugin of type device, which this node has no use for",
		"dir.wasm rejected: not a regular file but a directory",
		"good.wasm good 1.0.0 healthy",
		"large.wasm rejected: the file has 65537 bytes, the limit is 65536",
		"link.wasm rejected: cannot be read: stat " + w.dir + "/link.wasm: no such file or directory",
		"text.wasm rejected: scan: not a module",
	}, w.lines())
	// A link is as good as what it leads to.
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "nowhere"), recipe{Name: "linked", Version: "1.0.0"}.module(t), 0o644))
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Contains(c, w.lines(), "link.wasm linked 1.0.0 healthy") }, patient, 10*time.Millisecond)
}

func TestADirectoryThatCannotBeReadKeepsItsPluginsInService(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	w := newDirWorld(t, dir)
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0"})
	w.start()
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Contains(c, w.catalog.Directory().Problem, "cannot read the plugin directory: open "+dir+": no such file")
	}, patient, 10*time.Millisecond)
	d, err := w.manager.Dispense("a")
	require.NoError(t, err)
	d.Release()
	require.NoError(t, os.Rename(dir+".away", dir))
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Empty(c, w.catalog.Directory().Problem) }, patient, 10*time.Millisecond)
	w.drop("b.wasm", recipe{Name: "b", Version: "1.0.0"})
	w.until("a.wasm a 1.0.0 healthy", "b.wasm b 1.0.0 healthy")
}

func TestTheDirectoryIsMadeOrTheErrorNamesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	newDirWorld(t, dir).start()
	require.DirExists(t, dir)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := NewCatalog(CatalogConfig{Dir: filepath.Join(file, "plugins"), Loader: &fakeLoader{}, Logger: hclog.NewNullLogger()})
	require.ErrorContains(t, err, "plugin directory "+file+"/plugins: ")
}

func TestFilesBeyondTheLimitAreCounted(t *testing.T) {
	dir := t.TempDir()
	for i := range MaxPluginFiles {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.wasm", i)), nil, 0o644))
	}
	marks, problem := readMarks(dir)
	require.Len(t, marks, MaxPluginFiles)
	require.Empty(t, problem)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "z.wasm"), nil, 0o644))
	marks, problem = readMarks(dir)
	require.Len(t, marks, MaxPluginFiles)
	require.Equal(t, "1 plugin files are not loaded: the limit is 256", problem)
}

func TestWhileFilesAreLoadingADriverMayStillCome(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	_, err := w.manager.Dispense("a")
	require.Equal(t, abi.Unavailable, abi.CodeOf(err))
	require.True(t, abi.IsRecoverable(err))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.manager.WaitForFirstFingerprint(ctx), context.Canceled)
	w.start()
	_, err = w.manager.Dispense("a")
	require.EqualError(t, err, `driver "a" not found: no plugin in `+w.dir+` provides it`)
	require.Equal(t, abi.NotFound, abi.CodeOf(err))
}

func TestTheCatalogWithstandsChangesInQuickSuccession(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.start()
	var wg sync.WaitGroup
	for f := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("%d.wasm", f)
			for i := range 30 {
				w.drop(name, recipe{Name: fmt.Sprint("d", (f+i)%3), Version: fmt.Sprintf("1.0.%d", i), Pad: i})
				if i%5 == 4 {
					w.remove(name)
				}
				w.catalog.Status()
				if d, err := w.manager.Dispense("d0"); err == nil {
					d.Release()
				}
			}
		})
	}
	wg.Wait()
	w.drop("0.wasm", recipe{Name: "d0", Version: "2.0.0"})
	w.until("0.wasm d0 2.0.0 healthy")
}

func TestAFileThatTakesForEverHoldsNobodyUp(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.start()
	w.drop("a.wasm", recipe{Name: "a", Version: "1.0.0", Blocks: true})
	w.until("a.wasm loading")
	w.drop("b.wasm", recipe{Name: "b", Version: "1.0.0"})
	w.until("a.wasm loading", "b.wasm b 1.0.0 healthy")
	// New content ends the load of the old one.
	w.drop("a.wasm", recipe{Name: "a", Version: "2.0.0"})
	w.until("a.wasm a 2.0.0 healthy", "b.wasm b 1.0.0 healthy")
	w.drop("a.wasm", recipe{Name: "a", Version: "3.0.0", Blocks: true})
	w.until("a.wasm a 2.0.0 healthy: the file has changed and is being loaded", "b.wasm b 1.0.0 healthy")
	// So does its removal.
	w.remove("a.wasm")
	w.until("b.wasm b 1.0.0 healthy")
}

func TestAFileThatCannotBeReadIsTriedAgain(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root reads everything: a link that leads nowhere stands in")
	}
	w := newDirWorld(t, t.TempDir())
	require.NoError(t, os.Symlink("later", filepath.Join(w.dir, "a.wasm")))
	w.start()
	w.catalog.mu.Lock()
	require.True(t, w.catalog.files["a.wasm"].unread)
	w.catalog.mu.Unlock()
	w.catalog.wg.Go(func() { w.catalog.retryUnread(5 * time.Millisecond) })
	w.drop("later", recipe{Name: "a", Version: "1.0.0"})
	w.until("a.wasm a 1.0.0 healthy")
}
