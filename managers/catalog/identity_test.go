package catalog

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

func TestWhoMayGoByAName(t *testing.T) {
	const one, two = "1111", "2222"
	plugins := func(p PluginSettings) Settings { return Settings{Plugins: map[string]PluginSettings{"x": p}} }
	for name, c := range map[string]struct {
		settings     Settings
		file, digest string
		refused      string // "": it may
	}{
		"anyone, while nothing is decided":        {Settings{}, "aaa.wasm", one, ""},
		"the file of that name":                   {plugins(PluginSettings{}), "x.wasm", one, ""},
		"its next version":                        {plugins(PluginSettings{}), "x.wasm", two, ""},
		"no file that sorts before it":            {plugins(PluginSettings{}), "aaa.wasm", one, `it calls itself "x", a name that the configuration gives to x.wasm; if this file is meant, write plugin "x" { file = "aaa.wasm" }`},
		"nor one that differs in case":            {plugins(PluginSettings{}), "X.wasm", one, `write plugin "x" { file = "X.wasm" }`},
		"the file that is named":                  {plugins(PluginSettings{File: "y.wasm"}), "y.wasm", one, ""},
		"and not the one that was not":            {plugins(PluginSettings{File: "y.wasm"}), "x.wasm", one, `a name that the configuration gives to y.wasm`},
		"any file of the pinned content":          {plugins(PluginSettings{SHA256: one}), "aaa.wasm", one, ""},
		"also when another file is named":         {plugins(PluginSettings{SHA256: one, File: "y.wasm"}), "aaa.wasm", one, ""},
		"no other content":                        {plugins(PluginSettings{SHA256: one}), "x.wasm", two, `its SHA-256 is 2222, the configuration says 1111: put the right file back, or change it to plugin "x" { sha256 = "2222" }`},
		"nothing that is not pinned if it has to": {Settings{RequirePinned: true}, "x.wasm", one, `require_pinned is set and the plugin is not pinned: add plugin "x" { sha256 = "1111" }`},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.settings.refusal(claim{host.KindDriver, "x"}, c.file, c.digest)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refused)
		})
	}
}

func TestAPluginGetsWhatWasDecidedForItsNameOrForOthers(t *testing.T) {
	own, others := host.Grants{Process: host.ProcessGrant{Commands: []string{"own"}}}, host.Grants{Process: host.ProcessGrant{Commands: []string{"others"}}}
	config := map[string]any{"a": 1}
	s := Settings{Plugins: map[string]PluginSettings{"x": {Grants: own, Config: config}}, Others: others}
	require.Equal(t, given{own, config}, s.of("x"))
	require.Equal(t, given{others, nil}, s.of("y"))
	require.True(t, s.of("x").equal(given{own, config}))
	require.False(t, s.of("x").equal(given{own, nil}))
	require.False(t, s.of("x").equal(s.of("y")))
}

func TestOnlyWhatIsInChargeOfANameIsAnnounced(t *testing.T) {
	var changed []string
	before, now := &Unit{name: "x"}, &Unit{name: "x"}
	r := &Registry{cfg: RegistryConfig{Changed: func(name string) { changed = append(changed, name) }}, inCharge: map[string]*Unit{"x": now}}
	r.Announce(before)
	require.Empty(t, changed)
	r.Announce(now)
	require.Equal(t, []string{"x"}, changed)
}

// content is what a file of the simulated directory has in it.
type content struct {
	plugin  string // the name that it gives itself; "": it does not load
	version int
}

func (c content) digest() string { return strings.Repeat(fmt.Sprint(c.plugin, c.version), 16) }

// simulation is a directory whose files are loaded in an order that chance decides.
type simulation struct {
	t        *testing.T
	seed     uint64
	chance   *rand.Rand
	files    files
	contents map[string]content
	inCharge map[string]*Unit // as a registry has it
	settled  map[*Unit]given
	of       map[*Unit]string // the file
	loads    []*simulatedLoad
}

// simulatedLoad is a load and how far it is.
type simulatedLoad struct {
	loadFile
	content   content
	cancelled bool
	claimed   *decision // nil: it is not described yet, or waits
	unit      *Unit     // that it has put in charge
}

func (s *simulation) step(change func(now time.Time) []action) {
	now := time.Unix(0, 0)
	actions := change(now)
	actions = append(actions, s.files.retryKept(now)...)
	for _, a := range actions {
		switch a := a.(type) {
		case loadFile:
			if a.f.lost || a.f.load != a.load {
				continue
			}
			l := &simulatedLoad{loadFile: a, content: s.contents[a.f.name]}
			a.f.loading.cancel = func() { l.cancelled = true }
			s.loads = append(s.loads, l)
		case removeUnit:
			if name := a.u.name; s.inCharge[name] == a.u {
				delete(s.inCharge, name)
			}
		case settle:
			s.settled[a.u] = a.what
		}
	}
	s.onlyTheMeant()
}

// onlyTheMeant: at no moment does a file have a name that was given to another. What was
// taken into service just before the settings changed is not looked at yet.
func (s *simulation) onlyTheMeant() {
	for name, u := range s.inCharge {
		taken := slices.ContainsFunc(s.loads, func(l *simulatedLoad) bool { return l.unit == u })
		if meant := s.files.settings.meant(name); meant != "" && !taken {
			require.Equal(s.t, meant, s.of[u], "seed %d: %s", s.seed, name)
		}
	}
}

// advance goes on with one of the loads, and reports whether there was any.
func (s *simulation) advance() bool {
	s.loads = slices.DeleteFunc(s.loads, func(l *simulatedLoad) bool { return l.cancelled && l.unit == nil })
	for _, i := range s.chance.Perm(len(s.loads)) {
		l := s.loads[i]
		// One load of a file goes on at a time.
		first := slices.IndexFunc(s.loads, func(o *simulatedLoad) bool { return o.f == l.f }) == i
		if first && s.advanceLoad(l) {
			return true
		}
	}
	return false
}

// advanceLoad does a load's next step; false: it waits.
func (s *simulation) advanceLoad(l *simulatedLoad) bool {
	what := identity{kind: host.KindDriver, name: l.content.plugin, digest: l.content.digest()}
	end := func(change func(now time.Time) []action) {
		s.loads = slices.DeleteFunc(s.loads, func(o *simulatedLoad) bool { return o == l })
		s.step(change)
	}
	reject := func(err error) {
		end(func(now time.Time) []action { return s.files.rejected(now, l.f, l.load, what, err) })
	}
	var there *Unit
	if l.unit == nil && l.claimed == nil && l.content.plugin != "" {
		there, _ = s.files.isInCharge(l.f, l.load, what.digest, pluginsign.PublicKey{})
	}
	switch {
	case l.unit != nil:
		end(func(now time.Time) []action {
			return s.files.loaded(now, l.f, l.load, l.unit, what, l.claimed.replaces)
		})
	case l.claimed != nil: // Take
		if before := s.inCharge[what.name]; before != nil {
			close(before.replaced)
		}
		l.unit = &Unit{name: what.name, replaced: make(chan struct{}), gone: make(chan struct{})}
		s.of[l.unit] = l.f.name
		s.settled[l.unit] = l.claimed.given
		s.inCharge[what.name] = l.unit
	case l.content.plugin == "":
		reject(errors.New("broken"))
	case there != nil:
		end(func(time.Time) []action { return nil })
	default:
		var d decision
		var err error
		s.step(func(now time.Time) []action {
			d, err = s.files.claim(now, l.f, l.load, what)
			return d.actions
		})
		switch {
		case err != nil:
			reject(err)
		case d.wait:
			return false
		default:
			l.claimed = &d
		}
	}
	return true
}

// rightful is the file that has a name whatever happened before.
func (s *simulation) rightful(name string) (best string) {
	for file, c := range s.contents {
		if c.plugin == name && s.files.settings.refusal(claim{host.KindDriver, name}, file, c.digest()) == nil && (best == "" || s.files.settings.before(name, file, best)) {
			best = file
		}
	}
	return best
}

// change does something to the directory or to the settings.
func (s *simulation) change(names, plugins []string) {
	name := names[s.chance.IntN(len(names))]
	switch s.chance.IntN(6) {
	case 0:
		delete(s.contents, name)
		s.step(func(now time.Time) []action { return s.files.found(now, nil, nil, []string{name}) })
	case 1:
		s.step(func(now time.Time) []action { return s.files.apply(now, s.settings(names, plugins)) })
	default:
		s.contents[name] = content{plugins[s.chance.IntN(len(plugins))], s.chance.IntN(2)}
		s.step(func(now time.Time) []action { return s.files.found(now, nil, []string{name}, nil) })
	}
}

// settings are any.
func (s *simulation) settings(names, plugins []string) Settings {
	all := map[string]PluginSettings{}
	for i, name := range plugins[1:] {
		p := PluginSettings{Grants: host.Grants{Process: host.ProcessGrant{Commands: []string{"/" + name + fmt.Sprint(i)}}}}
		switch s.chance.IntN(5) {
		case 0:
			p.File = names[s.chance.IntN(len(names))]
		case 1:
			p.SHA256 = content{name, s.chance.IntN(2)}.digest()
		case 2, 3:
			continue
		}
		all[name] = p
	}
	return Settings{Plugins: all}
}

// TestWhoHasANameDoesNotDependOnTheOrderInWhichFilesCome has files come, change and go, and
// the settings change, in any order and at any moment of a load. In the end each name is its
// rightful file's, with what was granted to that name, and at no moment another's.
func TestWhoHasANameDoesNotDependOnTheOrderInWhichFilesCome(t *testing.T) {
	names := []string{"a.wasm", "b.wasm", "x.wasm", "y.wasm", "z.wasm"}
	plugins := []string{"", "x", "y", "other"}
	for seed := range uint64(3000) {
		s := &simulation{
			t: t, seed: seed, chance: rand.New(rand.NewPCG(seed, 0)), contents: map[string]content{},
			inCharge: map[string]*Unit{}, settled: map[*Unit]given{}, of: map[*Unit]string{},
		}
		s.files = newFiles(s.settings(names, plugins))
		for range 12 {
			s.change(names, plugins)
			for range s.chance.IntN(6) {
				s.advance()
			}
		}
		for s.advance() {
		}
		// What is not taken leaves the file's version before in charge. That is of the past, so
		// such files come anew.
		for _, name := range slices.Sorted(maps.Keys(s.files.byName)) {
			if f := s.files.byName[name]; f.unit != nil && f.state != "" {
				s.step(func(now time.Time) []action { return s.files.found(now, nil, nil, []string{name}) })
				s.step(func(now time.Time) []action { return s.files.found(now, nil, []string{name}, nil) })
			}
		}
		for s.advance() {
		}
		require.Empty(t, s.loads, "seed %d: every load ends", seed)
		for _, plugin := range plugins[1:] {
			u := s.inCharge[plugin]
			want := s.rightful(plugin)
			require.Equal(t, want, s.of[u], "seed %d: %s", seed, plugin)
			if u != nil {
				require.Same(t, u, s.files.byName[want].unit, "seed %d: %s", seed, plugin)
				require.Equal(t, s.files.settings.of(plugin), s.settled[u], "seed %d: %s", seed, plugin)
			}
		}
		for name, f := range s.files.byName {
			if f.unit == nil {
				require.Equal(t, StateRejected, f.state, "seed %d: %s", seed, name)
				require.NotEmpty(t, f.reason, "seed %d: %s", seed, name)
			}
		}
	}
}
