package supervisor

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/workload"
)

// results are the files of workloads' ends, one each, until the workload is destroyed.
// They outlive the server: an agent that was away asks the next one. Whoever writes or
// removes one has it to himself, which its [record] sees to.
type results struct{ dir string }

// openResults returns the directory's files, and their contents.
func openResults(dir string) (results, []*workload.Status, error) {
	r := results{dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return r, nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return r, nil, err
	}
	var all []*workload.Status
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if s := r.read(path); s != nil {
			all = append(all, s)
		} else {
			_ = os.Remove(path) // it was not written to its end
		}
	}
	return r, all, nil
}

// read returns nil for a file that is not a whole result.
func (r results) read(path string) *workload.Status {
	var s workload.Status
	content, err := os.ReadFile(path)
	if err == nil && strings.HasSuffix(path, ".json") && json.Unmarshal(content, &s) == nil && path == r.path(s.ID) {
		return &s
	}
	return nil
}

func (r results) path(id string) string {
	return filepath.Join(r.dir, digestOf([]byte(id))+".json")
}

// write returns when a result is durable.
func (r results) write(s *workload.Status) error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	failpoint.Here("result.write")
	err = durable.Replace(r.path(s.ID), content, 0o600)
	failpoint.Here("result.renamed")
	return err
}

// remove removes a result, if there is one.
func (r results) remove(id string) error {
	failpoint.Here("result.remove")
	if err := os.Remove(r.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
