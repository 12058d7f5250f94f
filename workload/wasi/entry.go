package wasi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sandbox"
	"github.com/wasmnode/wasmnode/sandbox/descriptor"
	"github.com/wasmnode/wasmnode/workload"
)

// How a program finds its listeners and its signals. The first two are systemd's.
const (
	envListeners     = "LISTEN_FDS"
	envListenerNames = "LISTEN_FDNAMES"
	envSignals       = "WASMNODE_SIGNAL_FD"
)

// entry is one run of a module: the program's own, or one beside it. It is closed when that
// has ended.
type entry struct {
	guest        sandbox.Guest
	descriptors  descriptor.Table
	env          map[string]string // of the descriptors
	takesSignals bool
	instance     *sandbox.Instance
	cleanup      []func()
}

// streams are where output goes, and where standard input comes from if that is a file.
type streams struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// openDescriptors opens the program's listeners and the pipe of its signals.
func (e *entry) openDescriptors(w *workload.WASIProgram) error {
	e.guest.Descriptors, e.env = &e.descriptors, map[string]string{}
	e.cleanup = append(e.cleanup, e.descriptors.Close)
	if len(w.Listen) > 0 {
		if err := inNetwork(w.Network, func() error { return e.listen(w.Listen) }); err != nil {
			return err
		}
	}
	if w.Signals {
		fd, err := e.descriptors.TakeSignals()
		if err != nil {
			return abi.NewRecoverableError(abi.ResourceExhausted, fmt.Sprintf("signals: %v", err))
		}
		e.env[envSignals], e.takesSignals = strconv.Itoa(fd), true
	}
	return nil
}

func (e *entry) listen(on []workload.Listener) error {
	names := make([]string, 0, len(on))
	for _, l := range on {
		if err := e.descriptors.Listen(l.Address); err != nil {
			return listenError(l, err)
		}
		names = append(names, l.Name)
	}
	e.env[envListeners], e.env[envListenerNames] = strconv.Itoa(len(names)), strings.Join(names, ":")
	return nil
}

// listenError is the error for a listener that could not be opened. Ports become free again.
func listenError(l workload.Listener, err error) error {
	text := fmt.Sprintf("listen on port %q at %s: %v", l.Name, l.Address, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return abi.NewRecoverableError(abi.Unavailable, text)
	case errors.Is(err, syscall.EACCES):
		return abi.NewError(abi.PermissionDenied, text)
	}
	return abi.NewError(abi.InvalidArgument, text)
}

// placeholder keeps the engine from a descriptor that is not one of its own.
type placeholder struct{ sys.UnimplementedFS }

// open opens what the guest sees, and makes an instance.
func (e *entry) open(ctx context.Context, module *sandbox.Module, spec *workload.Spec, s streams) error {
	files := wazero.NewFSConfig()
	for i := range e.descriptors.Given() {
		files = files.(sysfs.FSConfig).WithSysFSMount(placeholder{}, fmt.Sprintf("descriptor %d", i))
	}
	files, err := e.openMounts(files, spec.WASI.Mounts)
	if err != nil {
		return err
	}
	if spec.WASI.Stdin != nil && s.stdin == nil {
		if s.stdin, err = e.openInput(spec.WASI.Stdin); err != nil {
			return err
		}
	}
	e.instance, err = module.Instantiate(sandbox.WithGuest(ctx, &e.guest), e.config(spec, files, s))
	switch {
	case err != nil && e.guest.Memory.Crowded():
		return abi.NewRecoverableError(abi.ResourceExhausted, "the processes beside the program leave it too little of the task's memory to begin with")
	case err != nil:
		return abi.NewError(abi.InvalidArgument, "module: "+firstLine(err.Error()))
	}
	return nil
}

// openInput opens the file that is the standard input.
func (e *entry) openInput(m *workload.Mount) (io.Reader, error) {
	f, err := m.OpenInput()
	if err != nil {
		return nil, err
	}
	e.cleanup = append(e.cleanup, func() { _ = f.Close() })
	return input{&e.guest, f}, nil
}

// config is what the guest sees of the world.
func (e *entry) config(spec *workload.Spec, files wazero.FSConfig, s streams) wazero.ModuleConfig {
	cfg := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions().
		WithArgs(append([]string{spec.WASI.Name}, spec.WASI.Args...)...).
		WithStdout(output{&e.guest, s.stdout}).
		WithStderr(output{&e.guest, s.stderr}).
		WithFSConfig(files).
		WithSysWalltime().
		WithSysNanotime().
		WithOsyield(func() {})
	if s.stdin != nil {
		cfg = cfg.WithStdin(s.stdin)
	}
	env := maps.Clone(spec.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, e.env)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cfg = cfg.WithEnv(name, env[name])
	}
	return cfg
}

// run runs the guest to its end.
func (e *entry) run(ctx context.Context) error {
	err := e.instance.Call(ctx, e.instance.ExportedFunction(startExport), nil)
	_ = e.instance.Close(context.Background()) //nolint:contextcheck // a guest that has ended writes nothing
	return err
}

// signal sends the guest a signal, and reports whether it reads that.
func (e *entry) signal(number syscall.Signal) bool {
	return e.descriptors.Signal(byte(number)) == nil
}

// close gives back all that the run held.
func (e *entry) close() {
	for _, f := range slices.Backward(e.cleanup) {
		f()
	}
	e.cleanup = nil
}
