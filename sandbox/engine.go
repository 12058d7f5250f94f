package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/tetratelabs/wazero"

	"github.com/wasmnode/wasmnode/internal/slots"
)

// Config configures an engine; the zero value keeps nothing on disk.
type Config struct {
	// CacheDir is where compiled code is kept for the next start; it is made with
	// mode 0700, since who can write there can run code in the agent. Several engines may
	// have the same. Empty: nowhere.
	CacheDir string
	// CacheBytes bounds CacheDir; what was used longest ago goes first. 0 means
	// defaultCacheBytes.
	CacheBytes int64
	// Logger gets what happens to the cache; nil: it is not logged.
	Logger hclog.Logger
}

// ErrUntrustedCache matches the error of a directory for compiled code that others than this
// process's user and root can write to, or can put another in the place of.
var ErrUntrustedCache = errors.New("compiled code there could be anybody's")

// CheckCacheDir returns why a directory that need not exist may not be a [Config]'s CacheDir. It
// makes the directory.
func CheckCacheDir(dir string) error {
	_, err := openDiskCache(dir, defaultCacheBytes, hclog.NewNullLogger())
	return err
}

// defaultCacheBytes is the bound on the compilation cache: about forty Go plugins, of whose code
// there are two files of 11 MB each.
const defaultCacheBytes = 1 << 30

// maxCompilers bounds how many modules are compiled at once, however many processors there
// are: each may take some hundred megabytes.
const maxCompilers = 4

// Engine compiles modules and keeps what it compiled, in memory while it is used
// and on disk for the next start. It is safe for concurrent use.
type Engine struct {
	logger   hclog.Logger
	disk     *diskCache // nil: nothing is kept
	compiles *slots.Slots
	turns    *turns // of guests that run for long: one processor is left to all else
	refused  refusals

	processor error // why it cannot run what is compiled

	mu       sync.Mutex
	shared   map[string]*sharedCode   // by digest
	building map[string]chan struct{} // by digest, closed when it is built: one module of it is at a time
}

// sharedCode is the compiled code of one digest, for all modules made of it.
type sharedCode struct {
	cache wazero.CompilationCache
	dir   string // on the disk; empty: it is not there
	users int
}

// Open returns an engine.
//
// # Errors
//
// That of a cache directory that cannot be used: it matches [ErrUntrustedCache] when others
// could have put code there.
func Open(cfg Config) (*Engine, error) {
	e := &Engine{
		logger: cfg.Logger, compiles: slots.New(min(runtime.NumCPU(), maxCompilers)), turns: newTurns(max(1, runtime.GOMAXPROCS(0)-1)),
		shared: map[string]*sharedCode{}, building: map[string]chan struct{}{}, processor: CheckProcessor(),
	}
	if e.logger == nil {
		e.logger = hclog.NewNullLogger()
	}
	if cfg.CacheBytes < 0 {
		return nil, fmt.Errorf("compilation cache: a bound of %d bytes", cfg.CacheBytes)
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = defaultCacheBytes
	}
	if cfg.CacheDir == "" {
		return e, nil
	}
	var err error
	if e.disk, err = openDiskCache(cfg.CacheDir, cfg.CacheBytes, e.logger); err != nil {
		return nil, fmt.Errorf("compilation cache: %w", err)
	}
	return e, nil
}

// Close releases what the engine keeps in memory. Modules must have been closed.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	shared := e.shared
	e.shared = map[string]*sharedCode{}
	e.mu.Unlock()
	var errs []error
	for _, s := range shared {
		errs = append(errs, s.cache.Close(ctx))
	}
	return errors.Join(errs...)
}

// begin waits until no other module of a digest is being built, or returns the context's error.
// The caller ends what it has begun.
func (e *Engine) begin(ctx context.Context, digest string) error {
	for {
		e.mu.Lock()
		others := e.building[digest]
		if others == nil {
			e.building[digest] = make(chan struct{})
			e.mu.Unlock()
			return nil
		}
		e.mu.Unlock()
		select {
		case <-others:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end is the inverse of begin.
func (e *Engine) end(digest string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.building[digest])
	delete(e.building, digest)
}

// acquire returns one digest's code, which is kept on that disk unless
// it is nil. The caller has begun to build the digest, so that no other caller adds one.
func (e *Engine) acquire(ctx context.Context, digest string, wasm []byte, on *diskCache) (*sharedCode, error) {
	e.mu.Lock()
	if s := e.shared[digest]; s != nil {
		s.users++
		e.mu.Unlock()
		return s, nil
	}
	e.mu.Unlock()
	s, err := e.openShared(ctx, digest, wasm, on)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shared[digest] = s
	return s, nil
}

// openShared returns one digest's code for its first user. What is then
// compiled in this process has been compiled within the bounds before, where that can be.
func (e *Engine) openShared(ctx context.Context, digest string, wasm []byte, on *diskCache) (*sharedCode, error) {
	var dir string
	var err error
	if on != nil {
		if dir, err = on.open(digest); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		if dir, err = e.compileFirst(ctx, digest, wasm, on); err != nil {
			return nil, err
		}
	}
	if dir == "" {
		return &sharedCode{cache: wazero.NewCompilationCache(), users: 1}, nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, err
	}
	return &sharedCode{cache: cache, dir: dir, users: 1}, nil
}

// settle lets go of the memory that a module's code takes, where it has just been read from the
// disk. The caller has begun to build the digest, so that nobody else gets that code.
func (e *Engine) settle(s *sharedCode, on *diskCache, digest string, compiled wazero.CompiledModule) {
	e.mu.Lock()
	first := s.users == 1
	e.mu.Unlock()
	if !first || s.dir == "" || on == nil {
		return
	}
	if err := on.mapCode(s.dir, compiled); err != nil {
		e.logger.Debug("compiled code stays in memory", "digest", digest, "error", err)
	}
}

// release is the inverse of acquire.
func (e *Engine) release(ctx context.Context, digest string) error {
	e.mu.Lock()
	s := e.shared[digest]
	if s == nil {
		e.mu.Unlock()
		return nil
	}
	s.users--
	unused := s.users == 0
	if unused {
		delete(e.shared, digest)
	}
	e.mu.Unlock()
	if unused {
		return s.cache.Close(ctx)
	}
	return nil
}
