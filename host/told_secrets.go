package host

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/secrets"
)

// tooManySecrets is in the place of a text that may have a secret which is not looked for.
const tooManySecrets = "(not shown: its task has more secrets than are masked)"

// The bounds of what a plugin keeps to mask texts with, of the tasks that its newest calls were about.
// A byte of a secret takes some 24 bytes of memory.
const (
	maxMaskers     = 64
	maxMaskerBytes = secrets.MaxBytes
)

// maskers are those of a plugin's tasks, most of which are told the same in each call. The zero value has
// none. It is safe for concurrent use.
type maskers struct {
	mu   sync.Mutex
	kept []keptMasker // the newest last
	size int          // bytes of their secrets
}

type keptMasker struct {
	task string // its ID; empty: of the calls that are about none
	told uint64 // as of told
	*secrets.Masker
}

// of returns the masker of a task with these secret variables, which build makes if there is none yet of
// what it was told.
func (m *maskers) of(task *wasmnodev1.TaskConfig, variables []string, config []byte, build func() *secrets.Masker) *secrets.Masker {
	sum := told(task, variables, config)
	if k := m.find(task.GetId(), sum); k != nil {
		return k
	}
	k := keptMasker{task.GetId(), sum, build()} // a second one at the same time does no harm
	k.Ready()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.size = append(m.kept, k), m.size+k.Bytes()
	for len(m.kept) > maxMaskers || m.size > maxMaskerBytes && len(m.kept) > 1 {
		m.remove(0)
	}
	return k.Masker
}

// find returns nil where there is none.
func (m *maskers) find(task string, told uint64) *secrets.Masker {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.kept, func(k keptMasker) bool { return k.task == task && k.told == told })
	if i < 0 {
		return nil
	}
	k := m.kept[i]
	m.kept = append(slices.Delete(m.kept, i, i+1), k)
	return k.Masker
}

// reset drops all, when it is known how others of the plugin's texts are named that are secrets.
func (m *maskers) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept, m.size = nil, 0
}

// forget drops what is kept of a task that is destroyed.
func (m *maskers) forget(task *wasmnodev1.TaskConfig) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.kept) - 1; i >= 0; i-- {
		if of := m.kept[i].task; of != "" && of == task.GetId() {
			m.remove(i)
		}
	}
}

// remove drops one. The lock is held.
func (m *maskers) remove(i int) {
	m.size -= m.kept[i].Bytes()
	m.kept = slices.Delete(m.kept, i, i+1)
}

var toldSeed = maphash.MakeSeed()

// told is a sum of all that a task was told, of what names its secrets, and of a plugin's configuration.
func told(task *wasmnodev1.TaskConfig, variables []string, config []byte) uint64 {
	sum := maphash.Bytes(toldSeed, config) ^ maphash.Bytes(toldSeed, task.GetDriverConfig())<<1
	for _, name := range variables { // in any order
		sum += maphash.String(toldSeed, name)
	}
	for _, env := range []map[string]string{task.GetEnv(), task.GetDeviceEnv()} {
		for name, value := range env { // in any order
			sum += maphash.Comparable(toldSeed, [2]string{name, value})
		}
	}
	return sum
}

// shown is a text of the guest's for logs, events and errors, with the secrets of the call in progress
// masked: see [instance.known]. Cut: it may end within one.
func (i *instance) shown(text string, cut bool) string {
	if text == "" || i.plugin.host.cfg.Unmasked && !i.masked {
		return text
	}
	if i.secrets == nil {
		var task *wasmnodev1.TaskConfig
		if i.scope != nil {
			task = i.scope.Config
		}
		i.secrets = i.plugin.maskers.of(task, i.plugin.keptSecrets(task), i.config, i.known)
	}
	if i.secrets.Over {
		return tooManySecrets
	}
	return i.secrets.Line(text, cut)
}

// KeepSecrets has the values of these variables of a task's environment be secrets, whatever they are called,
// in all that is told of calls about the task, of any version of the plugin. With none, nothing is known
// of the task any more.
func (p *Plugin) KeepSecrets(taskID string, variables []string) {
	if len(variables) == 0 {
		p.host.secretVariables.Delete(taskID)
	} else {
		p.host.secretVariables.Store(taskID, slices.Clone(variables))
	}
}

func (p *Plugin) keptSecrets(task *wasmnodev1.TaskConfig) []string {
	names, _ := p.host.secretVariables.Load(task.GetId())
	list, _ := names.([]string)
	return list
}

// known are the secrets of the task that the call is about, and of the plugin's configuration: variables
// and texts that are named like a secret, or are one by the plugin's schemas, private keys, and what
// [Plugin.KeepSecrets] was told.
func (i *instance) known() *secrets.Masker {
	k := &secrets.Masker{Names: i.plugin.secretNames(), Lines: true}
	k.Object(i.config)
	if i.scope == nil {
		return k
	}
	task := i.scope.Config
	for _, name := range i.plugin.keptSecrets(task) {
		k.Hide(task.GetEnv()[name])
	}
	for _, env := range []map[string]string{task.GetEnv(), task.GetDeviceEnv()} {
		for name, value := range env {
			k.Variable(name, value)
		}
	}
	k.Object(task.GetDriverConfig())
	return k
}
