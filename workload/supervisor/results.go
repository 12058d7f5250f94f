package supervisor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/workload"
)

// results are the ends of workloads, a file each, until the workload is destroyed.
// They outlive the server: an agent that was away asks the next one.
type results struct {
	dir string

	mu        sync.Mutex
	ended     map[string]*workload.Status
	unwritten map[string]bool          // by the ID: the disk did not take it yet
	waiting   map[string]chan struct{} // closed when the result is there
}

func openResults(dir string) (*results, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	r := &results{dir: dir, ended: map[string]*workload.Status{}, unwritten: map[string]bool{}, waiting: map[string]chan struct{}{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		r.load(filepath.Join(dir, f.Name()))
	}
	return r, nil
}

// load reads one result. What was not written to its end is not one.
func (r *results) load(path string) {
	var s workload.Status
	content, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".json") && json.Unmarshal(content, &s) == nil && path == r.path(s.ID) {
		r.ended[s.ID] = &s
		return
	}
	_ = os.Remove(path) // half a result says nothing
}

func (r *results) path(id string) string {
	return filepath.Join(r.dir, digestOf([]byte(id))+".json")
}

// add writes a result down. When that fails the result is there nevertheless, for as
// long as the server is, and is written with a later one.
func (r *results) add(s *workload.Status) error {
	err := r.write(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[s.ID] = s
	if err != nil {
		r.unwritten[s.ID] = true
	} else {
		r.catchUp()
	}
	r.wake(s.ID)
	return err
}

// wake has those go on who wait for a result. The lock is held.
func (r *results) wake(id string) {
	if c := r.waiting[id]; c != nil {
		close(c)
		delete(r.waiting, id)
	}
}

// giveUp has those go on who wait for a result that may never be there.
func (r *results) giveUp(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(id)
}

func (r *results) write(s *workload.Status) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replaceFile(r.path(s.ID), content)
}

// catchUp writes what the disk did not take before, until it fails again. The lock is
// held, so that none is written that is being removed.
func (r *results) catchUp() {
	for id := range r.unwritten {
		if r.write(r.ended[id]) != nil {
			return
		}
		delete(r.unwritten, id)
	}
}

// written returns what is closed once a workload's result is there, or is removed.
func (r *results) written(id string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.waiting[id]
	if c == nil {
		c = make(chan struct{})
		r.waiting[id] = c
	}
	if r.ended[id] != nil {
		r.wake(id)
	}
	return c
}

func (r *results) find(id string) *workload.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[id]
}

// except returns the results of workloads that are not in the list, the longest
// started first.
func (r *results) except(list []*workload.Status) []*workload.Status {
	known := map[string]bool{}
	for _, s := range list {
		known[s.ID] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []*workload.Status{}
	for id, s := range r.ended {
		if !known[id] {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *workload.Status) int { return a.StartedAt.Compare(b.StartedAt) })
	return out
}

// remove forgets a result: it was acknowledged.
func (r *results) remove(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, id)
	delete(r.unwritten, id)
	r.wake(id)
	failpoint.Here("result.remove")
	if err := os.Remove(r.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceFile writes a file, whole or not at all.
func replaceFile(path string, content []byte) error {
	failpoint.Here("result.write")
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		failpoint.Here("result.rename")
		err = os.Rename(f.Name(), path)
		failpoint.Here("result.renamed")
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
