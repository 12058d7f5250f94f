package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/runners/allocdir"
	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/workload/supervisor"
)

// Ended is what [EndTasks] found.
type Ended struct {
	// Allocations is how many the node knows.
	Allocations int
	// Newer is that a newer version has written what this one cannot read: it knows of no
	// allocations, and their networks stay.
	Newer bool
}

// EndTasks ends what runs of a node whose agent is down, as a shutdown of the machine does: the
// supervisor with all of its tasks, their secrets in memory, and the networks of allocations. What an engine owns that a
// driver talks to, such as containers, goes on. The next agent starts again what is to run. Of
// the options it needs the configuration.
//
// # Errors
//
// An agent uses the data directory (boltfile.ErrLocked), or something does not end before ctx is
// done; nothing is unmounted then.
func EndTasks(ctx context.Context, o Options) (ended Ended, err error) {
	cfg, err := load(config.Default(), o)
	if err != nil {
		return Ended{}, err
	}
	path := filepath.Join(cfg.DataDir, clientFile)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return Ended{}, nil // no agent was ever there
	}
	db, err := state.Open(path, state.Options{}) // and no agent starts meanwhile
	if errors.Is(err, boltfile.ErrNewer) {
		return Ended{Newer: true}, endNewer(ctx, cfg, path)
	}
	if err != nil {
		return Ended{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := supervisor.End(ctx, supervisorDir(cfg.DataDir)); err != nil {
		return Ended{}, err
	}
	if err := forgetBoot(db); err != nil {
		return Ended{}, err
	}
	allocs, unreadable, err := db.Allocations()
	if err != nil {
		return Ended{}, err
	}
	err = allocdir.UnmountBelow(allocsDir(cfg.DataDir))
	given := networks(cfg.Client)
	for _, a := range allocs {
		if a.NetworkMode() == "" {
			continue
		}
		if one := given.Down(ctx, a); one != nil {
			err = errors.Join(err, fmt.Errorf("allocation %s: %w", a.ID, one))
		}
	}
	return Ended{Allocations: len(allocs) + len(unreadable)}, err
}

// endNewer ends what can be found without what a newer version has stored.
func endNewer(ctx context.Context, cfg config.Config, path string) (err error) {
	locked, err := boltfile.Lock(path, "node state")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locked.Close()) }()
	if err := supervisor.End(ctx, supervisorDir(cfg.DataDir)); err != nil {
		return err
	}
	return allocdir.UnmountBelow(allocsDir(cfg.DataDir))
}

// forgetBoot has the next agent know that nothing runs of what ran: as after another boot of the
// machine, that it is gone is no failure of the tasks'.
func forgetBoot(db state.DB) error {
	seen, err := db.Seen()
	if err != nil || seen == nil {
		return err
	}
	seen.BootID = "ended"
	return db.PutSeen(seen)
}
