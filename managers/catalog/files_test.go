package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/wake"
)

// formatActions writes actions as text; what is only logged is left out.
func formatActions(actions []action) string {
	var out []string
	for _, a := range actions {
		switch a := a.(type) {
		case loadFile:
			out = append(out, fmt.Sprintf("load %s %d", a.f.name, a.load))
		case removeUnit:
			out = append(out, "remove "+a.u.name)
		}
	}
	return strings.Join(out, ", ")
}

// directory steps files without a clock, a disk or a plugin.
type directory struct {
	t *testing.T
	files
}

func (d *directory) found(ready, gone []string) string {
	now := time.Unix(0, 0)
	return formatActions(append(d.files.found(now, ready, ready, gone), d.retryKept(now)...))
}

// loads is what becomes of a file's newest load when its content is a driver of that name.
func (d *directory) loads(file, plugin string) (string, error) {
	f := d.byName[file]
	what := identity{kind: host.KindDriver, name: plugin, digest: strings.Repeat(plugin, 64)}
	now := time.Unix(0, 0)
	claimed, err := d.claim(now, f, f.load, what)
	actions := claimed.actions
	if err != nil {
		actions = append(actions, d.rejected(now, f, f.load, what, err)...)
	} else {
		actions = append(actions, d.loaded(now, f, f.load, &Unit{name: plugin, replaced: make(chan struct{})}, what, claimed.replaces)...)
	}
	return formatActions(append(actions, d.retryKept(now)...)), err
}

func TestWhatIsDoneAboutAChangeOfTheFiles(t *testing.T) {
	d := &directory{t, newFiles(Settings{})}
	does := func(want string) func(got string, err error) {
		t.Helper()
		return func(got string, err error) {
			t.Helper()
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, "load a.wasm 1, load b.wasm 1", d.found([]string{"a.wasm", "b.wasm"}, nil))
	require.False(t, wake.IsClosed(d.first))
	does("")(d.loads("a.wasm", "x"))
	_, err := d.loads("b.wasm", "x")
	require.EqualError(t, err, `the driver "x" is already provided by a.wasm; remove one of the two files, or name the one that is meant: plugin "x" { file = "b.wasm" }`)
	require.True(t, wake.IsClosed(d.first), "all files of the first look are loaded or refused")

	require.Equal(t, "load a.wasm 2", d.found([]string{"a.wasm"}, nil))
	does("")(d.loads("a.wasm", "x")) // another version replaces the unit, which the registry sees to
	require.Equal(t, "load a.wasm 3", d.found([]string{"a.wasm"}, nil))
	does("remove x, load b.wasm 2")(d.loads("a.wasm", "y")) // the file has another plugin now
	does("")(d.loads("b.wasm", "x"))
	require.Equal(t, "remove x", d.found(nil, []string{"b.wasm"}))
	require.Len(t, d.gone, 2)
}

func TestALoadWhoseFileIsGoneIsTakenOutOfServiceAtOnce(t *testing.T) {
	d := &directory{t, newFiles(Settings{})}
	d.found([]string{"a.wasm"}, nil)
	f := d.byName["a.wasm"]
	what := identity{kind: host.KindDriver, name: "x", digest: strings.Repeat("x", 64)}
	_, err := d.claim(time.Unix(0, 0), f, f.load, what)
	require.NoError(t, err)
	require.Empty(t, d.found(nil, []string{"a.wasm"}))
	require.Equal(t, "remove x", formatActions(d.loaded(time.Unix(0, 0), f, f.load, &Unit{name: "x", replaced: make(chan struct{})}, what, false)))
	require.Empty(t, d.byName)
}

// TestALoadHasEndedBeforeAnotherFileMayHaveItsName: the version that it loads would
// otherwise replace the other file's plugin, and be removed then, which leaves none.
func TestALoadHasEndedBeforeAnotherFileMayHaveItsName(t *testing.T) {
	d := &directory{t, newFiles(Settings{})}
	d.found([]string{"a.wasm", "b.wasm"}, nil)
	_, err := d.loads("a.wasm", "x")
	require.NoError(t, err)
	d.found([]string{"a.wasm"}, nil) // a new version of x
	f := d.byName["a.wasm"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.loading = loading{cancel: cancel}
	what := identity{kind: host.KindDriver, name: "x"}
	claimed, err := d.claim(time.Unix(0, 0), f, f.load, what)
	require.NoError(t, err)
	require.True(t, claimed.replaces)

	d.files.found(time.Unix(0, 0), nil, nil, []string{"a.wasm"}) // and nothing is done yet
	b := d.byName["b.wasm"]
	_, err = d.claim(time.Unix(0, 0), b, b.load, what)
	require.NoError(t, err)
	require.Error(t, ctx.Err())
}

func TestALateLoadIsIgnored(t *testing.T) {
	d := &directory{t, newFiles(Settings{})}
	d.found([]string{"a.wasm"}, nil)
	f := d.byName["a.wasm"]
	d.found([]string{"a.wasm"}, nil)
	require.Empty(t, d.rejected(time.Unix(0, 0), f, 1, identity{}, errors.New("broken")))
	require.Equal(t, StateLoading, f.state)

	_, err := d.claim(time.Unix(0, 0), f, f.load, identity{kind: host.KindDriver, name: "x"})
	require.NoError(t, err)
	d.unclaim(f, 1)
	require.True(t, f.asks(claim{host.KindDriver, "x"}), "the load that is under way does")
	d.unclaim(f, f.load)
	require.False(t, f.asks(claim{host.KindDriver, "x"}))
}

func TestABlockThatIsMisspeltIsWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		blocks []string
		files  []string // besides my_driver.wasm, which is loaded as "my_driver"
		want   string
	}{
		"one that is alike":           {blocks: []string{"my_drvier"}, want: `plugin "my_drvier"`},
		"one with other dashes":       {blocks: []string{"my-driver", "other"}, want: `plugin "my-driver"`},
		"one that is not alike":       {blocks: []string{"raw_exec"}},
		"one of its own":              {blocks: []string{"my_driver", "my_drvier"}},
		"one of a file that is there": {blocks: []string{"my_driver2"}, files: []string{"my_driver2.wasm"}},
		"none":                        {},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{Plugins: map[string]PluginSettings{}}
			for _, b := range c.blocks {
				settings.Plugins[b] = PluginSettings{}
			}
			d := &directory{t, newFiles(Settings{})}
			d.found(append(c.files, "my_driver.wasm"), nil)
			f := d.byName["my_driver.wasm"]
			what := identity{kind: host.KindDriver, name: "my_driver", digest: strings.Repeat("x", 64)}
			d.settings = settings
			now := time.Unix(0, 0)
			_, err := d.claim(now, f, f.load, what)
			require.NoError(t, err)
			atLoad := d.loaded(now, f, f.load, &Unit{name: "my_driver", replaced: make(chan struct{})}, what, false)
			for _, actions := range [][]action{atLoad, d.apply(now, settings)} {
				var warned []any
				for _, a := range actions {
					if l, is := a.(logLine); is && l.level == hclog.Warn {
						warned = append(warned, l.args...)
					}
				}
				if c.want == "" {
					require.Empty(t, warned)
					continue
				}
				require.Equal(t, []any{"block", c.want, "plugin", "my_driver", "did_you_mean", `plugin "my_driver" { … }`}, warned)
			}
		})
	}
}
