package catalog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/managers/catalog"
	"github.com/wasmnode/wasmnode/managers/drivers"
	"github.com/wasmnode/wasmnode/managers/internal/catalogtest"
	"github.com/wasmnode/wasmnode/structs"
)

// dirWorld is a catalog on a real directory, with fake plugins.
type dirWorld struct {
	*catalogtest.Directory
	t       *testing.T
	loader  *catalogtest.Loader
	manager *drivers.Manager

	mu      sync.Mutex
	refused []string // what was told of files that are not taken
	loading []string // the files that were loading when it was told that they changed last
}

func (w *dirWorld) toldLoading() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loading
}

// refusals returns what was told of files that are not taken.
func (w *dirWorld) refusals() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refused)
}

func newDirWorld(t *testing.T, dir string) *dirWorld {
	t.Helper()
	return newDirWorldThatLooks(t, dir, 0)
}

// newDirWorldThatLooks makes one whose directory is looked at so often, without
// notifications; 0: with them.
func newDirWorldThatLooks(t *testing.T, dir string, lookEvery time.Duration) *dirWorld {
	t.Helper()
	return newDirWorldWith(t, dir, lookEvery, catalog.Settings{})
}

// newDirWorldOf makes one whose operator has decided something.
func newDirWorldOf(t *testing.T, s catalog.Settings) *dirWorld {
	t.Helper()
	return newDirWorldWith(t, t.TempDir(), 0, s)
}

func newDirWorldWith(t *testing.T, dir string, lookEvery time.Duration, s catalog.Settings) *dirWorld {
	t.Helper()
	w := &dirWorld{Directory: &catalogtest.Directory{T: t, Path: dir}, t: t, loader: &catalogtest.Loader{}}
	var err error
	w.Catalog, err = catalog.New(catalog.Config{Dir: dir, Loader: w.loader, Logger: hclog.NewNullLogger(), LookEvery: lookEvery, Settings: s, Refused: func(file, why string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refused = append(w.refused, file+": "+why)
	}, LoadingChanged: func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.loading = w.Catalog.LoadingFiles()
	}})
	require.NoError(t, err)
	w.manager = drivers.New(drivers.Config{
		Catalog: w.Catalog, Logger: hclog.NewNullLogger(),
		Updater: func(string, *structs.DriverInfo) {},
	})
	t.Cleanup(func() {
		w.manager.Shutdown()
		w.Catalog.Shutdown()
		require.Zero(t, w.loader.OpenCount(), "every plugin is closed")
	})
	return w
}

func (w *dirWorld) start() {
	w.t.Helper()
	w.Start(w.manager)
}

// drop renames a file into the directory.
func (w *dirWorld) drop(name string, r catalogtest.Recipe) {
	w.t.Helper()
	w.Put(name, r.Module(w.t))
}

func TestFilesAreLoadedReplacedAndRemovedWhileTheNodeRuns(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	require.Equal(t, []string{"a.wasm a 1.0.0 healthy"}, w.Lines())

	w.drop("b.wasm", catalogtest.Recipe{Name: "b", Version: "1.0.0"})
	w.Until("a.wasm a 1.0.0 healthy", "b.wasm b 1.0.0 healthy")
	d, err := w.manager.Dispense("b")
	require.NoError(t, err)
	w.drop("b.wasm", catalogtest.Recipe{Name: "b", Version: "1.1.0"})
	w.Until("a.wasm a 1.0.0 healthy", "b.wasm b 1.1.0 healthy")
	<-d.Replaced()
	require.Equal(t, 3, w.loader.OpenCount(), "the old version is in use")
	d.Release()
	require.Eventually(t, func() bool { return w.loader.OpenCount() == 2 }, catalogtest.TestTimeout, time.Millisecond, "it is closed once nobody uses it")

	w.Remove("b.wasm")
	w.Until("a.wasm a 1.0.0 healthy")
	_, err = w.manager.Dispense("b")
	require.Equal(t, abi.NotFound, abi.CodeOf(err))

	s := w.Catalog.Status()[0]
	require.Equal(t, []string{abi.ModuleABI, abi.ModuleLog}, s.CapabilitiesImported)
	require.Equal(t, []string{abi.ModuleABI}, s.CapabilitiesGranted)
	require.Len(t, s.Digest, 64)
	require.Equal(t, host.KindDriver, s.Type)
}

func TestNothingIsInChargeAfterAShutdown(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.manager.Refresh("a")
	w.manager.Refresh("nobody")
	w.manager.Shutdown()
	w.manager.Shutdown()
	_, err := w.manager.Dispense("a")
	require.Error(t, err)
	require.Zero(t, w.loader.OpenCount())
}

func TestAFileInUseIsListedAsRemovedUntilItsTasksEnd(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	d, err := w.manager.Dispense("a")
	require.NoError(t, err)
	w.Remove("a.wasm")
	w.Until("a.wasm a 1.0.0 removed: its file was removed")
	d.Release()
	w.Until()
}

// TestACopyInProgressIsNotAPlugin is on a clock that stands still while anything works: on
// a real one, a copy that is held up for a second is no longer in progress.
func TestACopyInProgressIsNotAPlugin(t *testing.T) {
	content := catalogtest.Recipe{Name: "a", Version: "1.0.0", TaskSchema: `{"description":"` + strings.Repeat("x", 4000) + `"}`}.Module(t)
	synctest.Test(t, func(t *testing.T) {
		w := newDirWorldThatLooks(t, t.TempDir(), 10*time.Millisecond)
		w.start()
		f, err := os.Create(filepath.Join(w.Path, "a.wasm"))
		require.NoError(t, err)
		for part := range 8 {
			_, err = f.Write(content[part*len(content)/8 : (part+1)*len(content)/8])
			require.NoError(t, err)
			require.Zero(t, w.loader.MadeCount())
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			for _, line := range w.Lines() {
				require.NotContains(t, line, "rejected")
			}
		}
		require.NoError(t, f.Close())
		require.Equal(t, []string{"a.wasm a 1.0.0 healthy"}, w.Lines())
		require.Equal(t, 1, w.loader.MadeCount(), "loaded once")
	})
}

func TestATruncatedFileIsRejectedAndTakenWhenItIsComplete(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.start()
	content := catalogtest.Recipe{Name: "a", Version: "1.0.0"}.Module(t)
	path := filepath.Join(w.Path, "a.wasm")
	require.NoError(t, os.WriteFile(path, content[:len(content)-3], 0o644))
	w.Until("a.wasm rejected: unexpected end of JSON input")
	require.NoError(t, os.WriteFile(path, content, 0o644))
	w.Until("a.wasm a 1.0.0 healthy")
}

func TestAFileThatDoesNotLoadLeavesTheOldVersionInCharge(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "2.0.0", LoadError: "policy: needs everything"})
	w.Until("a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: policy: needs everything")
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "2.0.0", ConfigureErr: "no"})
	w.Until("a.wasm a 1.0.0 healthy: the file has changed and was not taken, the version before stays: configure: no")
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.Until("a.wasm a 1.0.0 healthy")
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "3.0.0"})
	w.Until("a.wasm a 3.0.0 healthy")
}

func TestOfFilesWithOneNameThatNothingIsDecidedAboutTheOneCalledSoHasItElseTheFirst(t *testing.T) {
	refused := func(file, by string) string {
		return fmt.Sprintf(`%s x 1.0.0 rejected: the driver "x" is already provided by %s; remove one of the two files, or name the one that is meant: plugin "x" { file = %q }`, file, by, file)
	}
	w := newDirWorld(t, t.TempDir())
	w.drop("b.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.start()
	w.drop("c.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.Until("b.wasm x 1.0.0 healthy", refused("c.wasm", "b.wasm"))
	w.drop("b.wasm", catalogtest.Recipe{Name: "x", Version: "1.1.0"})
	w.Until("b.wasm x 1.1.0 healthy", refused("c.wasm", "b.wasm"))
	w.drop("b.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.Until("b.wasm x 1.0.0 healthy", refused("c.wasm", "b.wasm"))
	d, err := w.manager.Dispense("x")
	require.NoError(t, err)
	w.drop("a.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.Until("a.wasm x 1.0.0 healthy", refused("b.wasm", "a.wasm"), refused("c.wasm", "a.wasm"))
	<-d.Replaced() // as by an upgrade
	d.Release()
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.Until(refused("a.wasm", "x.wasm"), refused("b.wasm", "x.wasm"), refused("c.wasm", "x.wasm"), "x.wasm x 1.0.0 healthy")
	w.Remove("x.wasm")
	w.Until("a.wasm x 1.0.0 healthy", refused("b.wasm", "a.wasm"), refused("c.wasm", "a.wasm"))
	// The name is free as well when the file has another plugin in it.
	w.drop("a.wasm", catalogtest.Recipe{Name: "y", Version: "1.0.0"})
	w.Until("a.wasm y 1.0.0 healthy", "b.wasm x 1.0.0 healthy", refused("c.wasm", "b.wasm"))
}

// decided is what an operator decided about plugins.
type decided = map[string]catalog.PluginSettings

func TestANameWithABlockIsTheMeantFilesOnly(t *testing.T) {
	meant := host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/true"}}}
	w := newDirWorldOf(t, catalog.Settings{Plugins: decided{"x": {Grants: meant}}})
	var granted sync.Map
	w.loader.Prepare = func(p *catalogtest.Plugin) { granted.Store(p, p.Recipe.Version) }
	grantsOf := func(version string) (g host.Grants) {
		granted.Range(func(p, v any) bool {
			if v == version {
				g = p.(*catalogtest.Plugin).LastGranted()
			}
			return true
		})
		return g
	}
	refused := `aaa.wasm x 6.6.6 rejected: it calls itself "x", a name that the configuration gives to x.wasm; if this file is meant, write plugin "x" { file = "aaa.wasm" }`
	w.drop("aaa.wasm", catalogtest.Recipe{Name: "x", Version: "6.6.6"})
	w.start()
	require.Equal(t, []string{refused}, w.Lines(), "though x.wasm is not there")
	require.Empty(t, grantsOf("6.6.6"))
	_, err := w.manager.Dispense("x")
	require.EqualError(t, err, `driver "x" not found: x.wasm, which the configuration means by that name, is not there`)

	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0", Blocks: true})
	w.Until(refused, "x.wasm loading")
	_, err = w.manager.Dispense("x")
	require.True(t, abi.IsRecoverable(err), "it may come")
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.1.0"})
	w.Until(refused, "x.wasm x 1.1.0 healthy")
	require.Equal(t, meant, grantsOf("1.1.0"))
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.2.0"}) // an upgrade, without a question
	w.Until(refused, "x.wasm x 1.2.0 healthy")
	w.drop("aaa.wasm", catalogtest.Recipe{Name: "x", Version: "6.6.6", Pad: 1})
	w.Until(refused, "x.wasm x 1.2.0 healthy")
	w.Remove("x.wasm")
	w.Until(refused)
	require.Empty(t, grantsOf("6.6.6"))

	// Neither another name of the same file nor another spelling is the one that is meant.
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.2.0"})
	require.NoError(t, os.Symlink("x.wasm", filepath.Join(w.Path, "b.wasm")))
	require.NoError(t, os.Link(filepath.Join(w.Path, "x.wasm"), filepath.Join(w.Path, "X.wasm")))
	rejected := func(file string) string {
		return fmt.Sprintf(`%s x 1.2.0 rejected: it calls itself "x", a name that the configuration gives to x.wasm; if this file is meant, write plugin "x" { file = %q }`, file, file)
	}
	w.Until(rejected("X.wasm"), refused, rejected("b.wasm"), "x.wasm x 1.2.0 healthy")
	require.NoError(t, os.Rename(filepath.Join(w.Path, "x.wasm"), filepath.Join(w.Path, "y.wasm")))
	w.Until(rejected("X.wasm"), refused, "b.wasm rejected: cannot be read: stat "+w.Path+"/b.wasm: no such file or directory", rejected("y.wasm"))
}

func TestSettingsTakeEffectWhileTheNodeRuns(t *testing.T) {
	wide := host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/true"}}}
	w := newDirWorldOf(t, catalog.Settings{})
	var plugins sync.Map
	w.loader.Prepare = func(p *catalogtest.Plugin) { plugins.Store(p.Recipe.Version, p) }
	granted := func(version string) host.Grants {
		p, _ := plugins.Load(version)
		return p.(*catalogtest.Plugin).LastGranted()
	}
	w.drop("a.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0"})
	w.drop("b.wasm", catalogtest.Recipe{Name: "x", Version: "2.0.0"})
	w.start()
	taken := `b.wasm x 2.0.0 rejected: the driver "x" is already provided by a.wasm; remove one of the two files, or name the one that is meant: plugin "x" { file = "b.wasm" }`
	require.Equal(t, []string{"a.wasm x 1.0.0 healthy", taken}, w.Lines())

	apply := func(s catalog.Settings) {
		t.Helper()
		require.NoError(t, w.Catalog.Apply(s))
	}
	apply(catalog.Settings{Plugins: decided{"x": {File: "a.wasm", Grants: wide}}})
	require.Equal(t, wide, granted("1.0.0"), "at once")
	apply(catalog.Settings{Plugins: decided{"x": {File: "a.wasm"}}})
	require.Empty(t, granted("1.0.0"), "at once")

	d, err := w.manager.Dispense("x")
	require.NoError(t, err)
	apply(catalog.Settings{Plugins: decided{"x": {File: "b.wasm", Grants: wide}}})
	w.Until(
		`a.wasm x 1.0.0 rejected: it calls itself "x", a name that the configuration gives to b.wasm; if this file is meant, write plugin "x" { file = "a.wasm" }`,
		"b.wasm x 2.0.0 healthy",
		`a.wasm x 1.0.0 removed: it calls itself "x", a name that the configuration gives to b.wasm; if this file is meant, write plugin "x" { file = "a.wasm" }`,
	)
	require.Equal(t, wide, granted("2.0.0"))
	d.Release()
	apply(catalog.Settings{Plugins: decided{"x": {}}})
	w.Until(
		`a.wasm x 1.0.0 rejected: it calls itself "x", a name that the configuration gives to x.wasm; if this file is meant, write plugin "x" { file = "a.wasm" }`,
		`b.wasm x 2.0.0 rejected: it calls itself "x", a name that the configuration gives to x.wasm; if this file is meant, write plugin "x" { file = "b.wasm" }`,
	)
	apply(catalog.Settings{})
	w.Until("a.wasm x 1.0.0 healthy", taken)
}

func TestAConfigurationThatAPluginDoesNotTakeChangesNothing(t *testing.T) {
	w := newDirWorldOf(t, catalog.Settings{})
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0", PluginSchema: `{"properties":{"engine":{"type":"string"}}}`})
	w.start()
	for range 2 {
		err := w.Catalog.Apply(catalog.Settings{Plugins: decided{"x": {File: "y.wasm"}, "y": {}}})
		require.NoError(t, err)
		w.Until(`x.wasm x 1.0.0 rejected: it calls itself "x", a name that the configuration gives to y.wasm; if this file is meant, write plugin "x" { file = "x.wasm" }`)
		require.NoError(t, w.Catalog.Apply(catalog.Settings{}))
		w.Until("x.wasm x 1.0.0 healthy")
		err = w.Catalog.Apply(catalog.Settings{Plugins: decided{"x": {Config: map[string]any{"engin": "x"}}}})
		require.EqualError(t, err, `plugin "x": config.engin: unknown field, did you mean "engine"?`)
		require.Equal(t, []string{"x.wasm x 1.0.0 healthy"}, w.Lines())
	}
}

// TestAPluginThatLacksItsConfigurationIsInNoOnesWay has another one get a grant.
func TestAPluginThatLacksItsConfigurationIsInNoOnesWay(t *testing.T) {
	w := newDirWorldOf(t, catalog.Settings{})
	w.drop("x.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0", PluginSchema: `{"properties":{"engine":{"type":"string"}},"required":["engine"]}`})
	w.drop("y.wasm", catalogtest.Recipe{Name: "y", Version: "1.0.0"})
	w.start()
	lacks := `plugin "x": config.engine: missing`
	require.Equal(t, []string{"x.wasm x 1.0.0 unhealthy: configure: " + lacks, "y.wasm y 1.0.0 healthy"}, w.Lines())
	wide := host.Grants{Process: host.ProcessGrant{Commands: []string{"/bin/true"}}}
	require.NoError(t, w.Catalog.Apply(catalog.Settings{Plugins: decided{"y": {Grants: wide}}}))
	require.EqualError(t, w.Catalog.Apply(catalog.Settings{Plugins: decided{"x": {Config: map[string]any{"engin": "x"}}}}),
		`plugin "x": config.engin: unknown field, did you mean "engine"?; config.engine: missing`)
	require.NoError(t, w.Catalog.Apply(catalog.Settings{Plugins: decided{"x": {Config: map[string]any{"engine": "x"}}}}))
	w.Until("x.wasm x 1.0.0 healthy", "y.wasm y 1.0.0 healthy")
	require.EqualError(t, w.Catalog.Apply(catalog.Settings{}), lacks, "it is well, and would not be")
}

// TestAtTheStartTheFirstFileByNameHasTheName is on a clock that stands still while
// anything works: no file waits for ever for those before it.
func TestAtTheStartTheFirstFileByNameHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirWorldThatLooks(t, t.TempDir(), time.Second)
		for i := range 10 {
			w.drop(fmt.Sprintf("%c.wasm", 'a'+i), catalogtest.Recipe{Name: "x", Version: "1.0.0", Pad: i})
		}
		w.start()
		for i, line := range w.Lines() {
			if i == 0 {
				require.Equal(t, "a.wasm x 1.0.0 healthy", line)
				continue
			}
			require.Contains(t, line, `is already provided by a.wasm`)
		}
	})
}

// TestAFileWaitsForTheOneThatMayHaveItsNameBeforeIt: however long that one takes, it is not
// a matter of who is first.
func TestAFileWaitsForTheOneThatMayHaveItsNameBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirWorldThatLooks(t, t.TempDir(), time.Second)
		w.drop("a.wasm", catalogtest.Recipe{Name: "x", Version: "1.0.0", Blocks: true})
		w.drop("b.wasm", catalogtest.Recipe{Name: "x", Version: "2.0.0"})
		w.drop("c.wasm", catalogtest.Recipe{Name: "c", Version: "3.0.0"})
		w.Catalog.Start()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{
			"a.wasm loading",
			`b.wasm x loading: waiting for a.wasm, which may have the name "x" before it`,
			"c.wasm c 3.0.0 healthy", // it is called so
		}, w.Lines())
		require.Equal(t, []string{"a.wasm", "b.wasm"}, w.Catalog.LoadingFiles())
		w.drop("a.wasm", catalogtest.Recipe{Name: "y", Version: "1.0.0"})
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a.wasm y 1.0.0 healthy", "b.wasm x 2.0.0 healthy", "c.wasm c 3.0.0 healthy"}, w.Lines())
	})
}

func TestAQuarantinedPluginIsRevivedByTouchingItsFile(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	var broken atomic.Bool
	broken.Store(true)
	w.loader.Prepare = func(p *catalogtest.Plugin) {
		well := p.Ops[abi.OpDriverFingerprint]
		p.On(abi.OpDriverFingerprint, func(ctx context.Context, c host.Call) error {
			if broken.Load() {
				return catalogtest.Trap(c.Op)
			}
			return well(ctx, c)
		})
	}
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	w.Until("a.wasm a 1.0.0 quarantined: faulted 4 times, last: plugin fake trapped in driver_fingerprint: unreachable; to revive it, replace its file or touch it")
	broken.Store(false)
	now := time.Now()
	require.NoError(t, os.Chtimes(filepath.Join(w.Path, "a.wasm"), now, now))
	w.Until("a.wasm a 1.0.0 healthy")
	require.Equal(t, 1, w.loader.MadeCount(), "its content is the same")
}

func TestFilesThatAreNotPluginsEachHaveAReason(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	write := func(name string, content []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(w.Path, name), content, 0o644))
	}
	w.drop("good.wasm", catalogtest.Recipe{Name: "good", Version: "1.0.0"})
	write("text.wasm", []byte("hello"))
	write("large.wasm", make([]byte, 1<<16+1))
	require.NoError(t, os.Mkdir(filepath.Join(w.Path, "dir.wasm"), 0o755))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(w.Path, "link.wasm")))
	write("README.md", []byte("ignored"))
	write(".hidden.wasm", []byte("ignored"))
	w.drop("device.wasm", catalogtest.Recipe{Name: "d", Type: "device"})
	w.start()
	require.Equal(t, []string{
		"device.wasm d rejected: a plugin of type device, which this node does not support",
		"dir.wasm rejected: not a regular file but a directory",
		"good.wasm good 1.0.0 healthy",
		"large.wasm rejected: the file has 65537 bytes, the limit is 65536",
		"link.wasm rejected: cannot be read: stat " + w.Path + "/link.wasm: no such file or directory",
		"text.wasm rejected: scan: not a module",
	}, w.Lines())
	// A link is as good as what it leads to.
	require.NoError(t, os.WriteFile(filepath.Join(w.Path, "nowhere"), catalogtest.Recipe{Name: "linked", Version: "1.0.0"}.Module(t), 0o644))
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Contains(c, w.Lines(), "link.wasm linked 1.0.0 healthy") }, catalogtest.TestTimeout, 10*time.Millisecond)
}

func TestADirectoryThatCannotBeReadKeepsItsPluginsInService(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	require.NoError(t, os.Mkdir(dir, 0o755))
	w := newDirWorld(t, dir)
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.start()
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Contains(c, w.Catalog.Directory().Problem, "cannot read the plugin directory: open "+dir+": no such file")
	}, catalogtest.TestTimeout, 10*time.Millisecond)
	d, err := w.manager.Dispense("a")
	require.NoError(t, err)
	d.Release()
	require.NoError(t, os.Rename(dir+".away", dir))
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.Empty(c, w.Catalog.Directory().Problem) }, catalogtest.TestTimeout, 10*time.Millisecond)
	w.drop("b.wasm", catalogtest.Recipe{Name: "b", Version: "1.0.0"})
	w.Until("a.wasm a 1.0.0 healthy", "b.wasm b 1.0.0 healthy")
}

func TestADirectoryThatIsNoneIsAnErrorThatNamesIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{
		file + ".none":                 "plugin directory " + file + ".none does not exist: create it",
		file:                           "plugin directory " + file + " is not a directory: move it away",
		filepath.Join(file, "plugins"): "plugin directory " + file + "/plugins: stat " + file + "/plugins: not a directory",
	} {
		_, err := catalog.New(catalog.Config{Dir: dir, Loader: &catalogtest.Loader{}, Logger: hclog.NewNullLogger()})
		require.EqualError(t, err, want)
		require.NoDirExists(t, dir)
	}
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
	require.EqualError(t, err, `driver "a" not found: no plugin in `+w.Path+` provides it`)
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
				w.drop(name, catalogtest.Recipe{Name: fmt.Sprint("d", (f+i)%3), Version: fmt.Sprintf("1.0.%d", i), Pad: i})
				if i%5 == 4 {
					w.Remove(name)
				}
				w.Catalog.Status()
				if d, err := w.manager.Dispense("d0"); err == nil {
					d.Release()
				}
			}
		})
	}
	wg.Wait()
	w.drop("0.wasm", catalogtest.Recipe{Name: "d0", Version: "2.0.0"})
	w.Until("0.wasm d0 2.0.0 healthy")
}

func TestAFileThatLoadsForEverDoesNotDelayOthers(t *testing.T) {
	w := newDirWorld(t, t.TempDir())
	w.start()
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0", Blocks: true})
	w.Until("a.wasm loading")
	w.drop("b.wasm", catalogtest.Recipe{Name: "b", Version: "1.0.0"})
	w.Until("a.wasm loading", "b.wasm b 1.0.0 healthy")
	// New content ends the load of the old one.
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "2.0.0"})
	w.Until("a.wasm a 2.0.0 healthy", "b.wasm b 1.0.0 healthy")
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "3.0.0", Blocks: true})
	w.Until("a.wasm a 2.0.0 healthy: the file has changed and is being loaded", "b.wasm b 1.0.0 healthy")
	// So does its removal.
	w.Remove("a.wasm")
	w.Until("b.wasm b 1.0.0 healthy")
}

// TestWhatIsWaitedForIsLoadedFirst has more files load for ever than are loaded at once.
func TestWhatIsWaitedForIsLoadedFirst(t *testing.T) {
	w := newDirWorldOf(t, catalog.Settings{Plugins: map[string]catalog.PluginSettings{"meant": {File: "x.wasm"}}})
	for i := range 20 {
		w.drop(fmt.Sprintf("f%02d.wasm", i), catalogtest.Recipe{Name: fmt.Sprintf("f%02d", i), Version: "1.0.0", Blocks: true})
	}
	for file, name := range map[string]string{"x.wasm": "meant", "y.wasm": "y", "z.wasm": "z"} {
		w.drop(file, catalogtest.Recipe{Name: name, Version: "1.0.0"})
	}
	w.Catalog.Want("y")
	w.Catalog.Want("meant")
	w.Catalog.Start()
	require.NoError(t, w.manager.WaitForDriver(t.Context(), "y"))
	require.NoError(t, w.manager.WaitForDriver(t.Context(), "meant"))
	require.Contains(t, w.Catalog.LoadingFiles(), "z.wasm")

	_, err := w.manager.Dispense("z") // somebody waits for it now
	require.ErrorContains(t, err, "plugins are still loading")
	w.Remove("f00.wasm") // and there is a place
	require.NoError(t, w.manager.WaitForDriver(t.Context(), "z"))
	require.Len(t, w.Catalog.LoadingFiles(), 19)
	require.Eventually(t, func() bool { return slices.Equal(w.toldLoading(), w.Catalog.LoadingFiles()) }, time.Minute, time.Millisecond)
}

func TestADriverIsWaitedForAloneAndOnlyWhileItMayCome(t *testing.T) {
	w := newDirWorldOf(t, catalog.Settings{Plugins: decided{"meant": {}, "absent": {}}})
	w.drop("a.wasm", catalogtest.Recipe{Name: "a", Version: "1.0.0", Blocks: true})
	w.drop("b.wasm", catalogtest.Recipe{Name: "b", Version: "1.0.0"})
	w.drop("meant.wasm", catalogtest.Recipe{Name: "meant", LoadError: "broken"})
	w.Catalog.Start()
	for _, name := range []string{"b", "meant", "absent"} {
		ctx, cancel := context.WithTimeout(t.Context(), catalogtest.TestTimeout)
		require.NoError(t, w.manager.WaitForDriver(ctx, name), "though a.wasm is still loading")
		cancel()
	}
	_, err := w.manager.Dispense("meant")
	require.EqualError(t, err, `driver "meant" not found: meant.wasm, which the configuration means by that name, is rejected: broken`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.manager.WaitForDriver(ctx, "a"), context.Canceled)
	require.ErrorIs(t, w.manager.WaitForDriver(ctx, "any"), context.Canceled, "what it will be called is not known yet")
	w.Remove("a.wasm")
	ctx, cancel = context.WithTimeout(t.Context(), catalogtest.TestTimeout)
	defer cancel()
	require.NoError(t, w.manager.WaitForDriver(ctx, "any"))
}

func TestAFileThatCannotBeReadIsTriedAgain(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root reads everything: a link that leads nowhere stands in")
	}
	w := newDirWorld(t, t.TempDir())
	require.NoError(t, os.Symlink("later", filepath.Join(w.Path, "a.wasm")))
	w.start()
	require.True(t, w.Catalog.CouldNotRead("a.wasm"))
	w.Catalog.RetryUnreadable(5 * time.Millisecond)
	w.drop("later", catalogtest.Recipe{Name: "a", Version: "1.0.0"})
	w.Until("a.wasm a 1.0.0 healthy")
}

func TestADirectoryMayBeLookedAtWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := catalog.New(catalog.Config{Dir: t.TempDir(), Logger: hclog.NewNullLogger(), Loader: &catalogtest.Loader{}, LookEvery: time.Minute})
		require.NoError(t, err)
		c.Start()
		synctest.Wait() // nothing but a clock is waited for
		require.NoError(t, os.WriteFile(filepath.Join(c.Directory().Path, ".x.wasm"), nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(c.Directory().Path, "broken.wasm"), []byte("no recipe"), 0o600))
		time.Sleep(50 * time.Second)
		synctest.Wait()
		require.Empty(t, c.Status())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, c.Status(), 1)
		c.Shutdown()
	})
}
