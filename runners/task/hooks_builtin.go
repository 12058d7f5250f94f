package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	nomad "github.com/hashicorp/nomad/api"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/internal/failpoint"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/structs"
)

// builtin are the hooks that every task has, in their order, before all others.
func builtin(cfg Config, limits Limits) []Hook {
	return []Hook{validateHook{}, dirHook{}, secretsHook{inMemory: cfg.SecretsInMemory, dir: cfg.Dir}, logsHook{}, &identitiesHook{signer: cfg.Identities}, &apiHook{api: cfg.API, logger: cfg.Logger.With("task", cfg.Task)}, payloadHook{}, artifactsHook{limits.Artifact}, volumesHook{}}
}

// last are those after all others: what they render may refer to devices.
func last(cfg Config) []Hook {
	return []Hook{&templatesHook{services: cfg.Services, variables: cfg.Variables, limits: cfg.Limits.Templates}}
}

// validateHook refuses what a job's check could not know to be wrong.
type validateHook struct{}

func (validateHook) Name() string { return "validate" }

func (validateHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	var errs []error
	if s := req.Task.KillSignal; s != "" {
		if _, err := ParseSignal(s); err != nil {
			errs = append(errs, fmt.Errorf("kill_signal: %w", err))
		}
	}
	if l := req.Task.LogConfig; l != nil && !structs.Deref(l.Disabled) {
		if l.MaxFiles != nil && *l.MaxFiles < 1 {
			errs = append(errs, fmt.Errorf("logs: max_files is %d, minimum 1", *l.MaxFiles))
		}
		if l.MaxFileSizeMB != nil && *l.MaxFileSizeMB < 1 {
			errs = append(errs, fmt.Errorf("logs: max_file_size is %d, minimum 1", *l.MaxFileSizeMB))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &HookError{
			Event: structs.NewTaskEvent(structs.EventFailedValidation).WithMessage(err.Error()),
			Err:   err,
		}
	}
	return nil, nil
}

// dirHook builds the task's directory, once.
type dirHook struct{}

func (dirHook) Name() string { return "task_dir" }

func (dirHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	req.Emit(structs.NewTaskEvent(structs.EventTaskSetup).WithMessage("Building Task Directory"))
	if err := req.Dir.Build(); err != nil {
		return nil, recoverable(err)
	}
	return &PrestartResult{Done: true}, nil
}

// secretsHook sees to it that the secrets directory is there and, where it can be, in memory: the
// machine's end takes it away then. It ends with the task.
type secretsHook struct {
	inMemory bool
	dir      *allocdir.TaskDir
}

func (secretsHook) Name() string { return "secrets" }

func (h secretsHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	return nil, recoverable(req.Dir.ReadySecrets(h.inMemory, secretsMB(req.Task)))
}

// secretsMB is how large a task's secrets directory is in memory.
func secretsMB(t *nomad.Task) int {
	if r := t.Resources; r != nil && structs.Deref(r.SecretsMB) > 0 {
		return *r.SecretsMB
	}
	return allocdir.DefaultSecretsMB
}

// Poststart is for a task that an earlier agent started: what was mounted may have gone since.
func (h secretsHook) Poststart(_ context.Context, req *PoststartRequest) error {
	if !h.inMemory {
		return nil
	}
	r := req.Runner
	returned, err := h.dir.ReturnSecrets(secretsMB(r.Task()))
	if err != nil || !returned {
		return err
	}
	r.logger.Warn("the task's secrets directory was not mounted any more: it is again, and empty until the task starts next", "path", h.dir.Secrets)
	return ownerOf(r.Task(), req.Env(), isolates(r.running().driver)).giveSecrets(h.dir)
}

func (h secretsHook) Stop(context.Context) error { return h.dir.DropSecrets() }

// logsHook sees to it that logs can be written before anything writes one.
type logsHook struct{}

func (logsHook) Name() string { return "logs" }

func (logsHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	if err := writable(req.Dir.Alloc.Logs()); err != nil {
		return nil, recoverable(err)
	}
	return nil, nil
}

// writable returns why nothing can be written in a directory.
func writable(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s cannot be written: %w", dir, err)
	}
	return nil
}

// logPath is a task's log without the number that rotation adds.
func logPath(dir *allocdir.TaskDir, stream string) string {
	return filepath.Join(dir.Alloc.Logs(), dir.Name+"."+stream)
}

// Nomad's bounds of a task's logs, for a task that does not set them.
const (
	defaultLogFiles  = 10
	defaultLogFileMB = 10
)

func logConfig(task *nomad.Task) *wasmnodev1.LogConfig {
	files, size := defaultLogFiles, defaultLogFileMB
	c := &wasmnodev1.LogConfig{}
	if l := task.LogConfig; l != nil {
		c.Disabled = structs.Deref(l.Disabled)
		if l.MaxFiles != nil {
			files = max(1, *l.MaxFiles)
		}
		if l.MaxFileSizeMB != nil {
			size = max(1, *l.MaxFileSizeMB)
		}
	}
	c.MaxFiles, c.MaxFileSizeBytes = uint32(files), uint64(size)*mebibyte
	return c
}

// payloadHook writes a dispatched job's payload where the task asks for it, once.
type payloadHook struct{}

func (payloadHook) Name() string { return "dispatch_payload" }

func (payloadHook) Prestart(_ context.Context, req *PrestartRequest) (*PrestartResult, error) {
	d, job := req.Task.DispatchPayload, req.Alloc.Job
	if d == nil || d.File == "" || len(job.Payload) == 0 {
		return &PrestartResult{Done: true}, nil
	}
	local, err := os.OpenRoot(req.Dir.Local)
	if err != nil {
		return nil, err
	}
	defer local.Close()
	switch err := writeFile(local, d.File, job.Payload); {
	case boltfile.IsFull(err):
		return nil, recoverable(errors.New("the node's disk is full")) // there may be room later
	case err != nil:
		return nil, err
	}
	return &PrestartResult{Done: true}, nil
}

// writeFile writes a file under a root that it cannot leave, with its directories, and
// leaves nothing half-written behind.
func writeFile(root *os.Root, name string, data []byte) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	failpoint.Here("payload.write")
	if err := root.WriteFile(name, data, fs.FileMode(0o644)); err != nil {
		_ = root.Remove(name) // the error above is enough
		return err
	}
	return nil
}
