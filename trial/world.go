package trial

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"sync"
	"time"

	experimentalsys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/wasmnode/wasmnode/host"
)

// world is the time, the randomness and the files of a plugin whose calls can be repeated. In a call the
// time stands still while the plugin computes: it goes on when a capability has answered and
// when the plugin sleeps, so that a build that looks at the clock more often sees the same.
type world struct {
	mu      sync.Mutex
	inCall  bool
	live    bool      // the time that capabilities take is the machine's
	began   time.Time // of the call
	passed  time.Duration
	started time.Duration // of the plugin's other clock, when the call began
	looks   int           // at a clock, since the time went on
	random  *mathrand.ChaCha8
	files   filesSeen
	open    int // files that were opened in the call
}

// filesSeen has what a plugin asks of a file in a call done, by do, or plays it.
type filesSeen func(op string, ask *fileAsk, do func() *fileAnswer) *fileAnswer

var _ host.Surroundings = (*world)(nil)

// patience is how often a plugin may look at a clock that stands still: one that waits for it
// in a loop would never end.
const (
	patience = 10_000
	tick     = time.Millisecond
)

// begin begins a call; fresh: in an instance that has seen none before. What it asks of files is
// seen by files.
func (w *world) begin(at time.Time, seed [32]byte, fresh, live bool, files filesSeen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fresh {
		w.started = time.Second
	} else {
		w.started += w.passed
	}
	w.inCall, w.live, w.began, w.passed, w.looks = true, live, at, 0, 0
	w.random, w.files, w.open = mathrand.NewChaCha8(seed), files, 0
}

func (w *world) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inCall, w.files = false, nil
}

// capabilityReturned has the time go on, and returns how much of it has passed in the call.
func (w *world) capabilityReturned() time.Duration {
	return w.goOn(time.Since(w.began))
}

// goOn has the time go on to so much after the beginning, unless more has passed already.
func (w *world) goOn(passed time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed, w.looks = max(w.passed, passed), 0
	return w.passed
}

// look returns how much time has passed. The caller holds mu.
func (w *world) look() time.Duration {
	if w.looks++; w.looks > patience {
		w.passed += tick
	}
	return w.passed
}

// Walltime implements [host.Surroundings].
func (w *world) Walltime() (seconds int64, nanoseconds int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.inCall {
		now = w.began.Add(w.look())
	}
	return now.Unix(), int32(now.Nanosecond())
}

// processStart is when the clock of plugins that are in no call began.
var processStart = time.Now()

// Nanotime implements [host.Surroundings].
func (w *world) Nanotime() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inCall {
		return int64(w.started + w.look())
	}
	return int64(time.Since(processStart)) + 1
}

// Asleep implements [host.Surroundings]. In a call that is repeated nobody sleeps.
func (w *world) Asleep(want time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.inCall {
		return want
	}
	w.passed, w.looks = w.passed+max(want, 0), 0
	if !w.live {
		return 0
	}
	return want
}

// Read implements [host.Surroundings].
func (w *world) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.inCall {
		return rand.Read(p)
	}
	return w.random.Read(p)
}

// Files implements [host.Surroundings]. In a call that is repeated none is the machine's.
func (w *world) Files(at string, op func() string, open func() (experimentalsys.FS, error)) (experimentalsys.FS, error) {
	f := &files{world: w, at: at, op: op}
	if w.plays() {
		return f, nil
	}
	var err error
	f.real, err = open()
	return f, err
}

func (w *world) plays() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inCall && !w.live
}

// use has what a plugin asks of a file done.
func (w *world) use(op string, ask *fileAsk, do func() *fileAnswer) *fileAnswer {
	w.mu.Lock()
	seen := w.files
	w.mu.Unlock()
	if seen == nil {
		return do()
	}
	return seen(op, ask, do)
}

// opened counts the files that are opened, and returns the number of the next one.
func (w *world) opened() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return w.open
}
