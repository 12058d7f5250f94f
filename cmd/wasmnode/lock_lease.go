package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"
)

// A lock is renewed after lockRenewal of its TTL, and lost lockLost TTLs after it was renewed last.
const (
	lockRenewal = 0.7
	lockLost    = 2
	lockBackoff = 1.1 // TTLs between attempts to get one
)

// errLocked is that somebody else holds the lock.
var errLocked = errors.New("somebody else holds the lock")

// lockLease is the lock of a variable, and how it is kept.
type lockLease struct {
	variables *nomad.Variables
	variable  *nomad.Variable // its Lock is what was asked for, then what is held
	ttl       time.Duration
	retries   int
	renewed   time.Time
}

// want says which lock is wanted: what is given, what is in the variable's file, or Nomad's.
func (l *lockLease) want(ttl, delay time.Duration) (err error) {
	asked := &nomad.VariableLock{}
	if l.variable.Lock != nil {
		asked.TTL, asked.LockDelay = l.variable.Lock.TTL, l.variable.Lock.LockDelay
	}
	l.variable.Lock = asked
	if ttl != 0 {
		asked.TTL = ttl.String()
	}
	if delay != 0 {
		asked.LockDelay = delay.String()
	}
	l.ttl = nomad.DefaultLockTTL
	if asked.TTL != "" {
		if l.ttl, err = time.ParseDuration(asked.TTL); err != nil {
			return fmt.Errorf("the lock's TTL: %w", err)
		}
	}
	return nil
}

// acquire gets the lock, or errLocked.
func (l *lockLease) acquire(ctx context.Context) error {
	before := time.Now()
	got, _, err := l.variables.AcquireLock(l.variable, (&nomad.WriteOptions{}).WithContext(ctx))
	if isConflict(err) {
		return errLocked
	}
	if err != nil {
		return err
	}
	l.variable.Lock, l.renewed = got.Lock, before
	return nil
}

// keep renews the lock until ctx ends; the error is that it is lost.
func (l *lockLease) keep(ctx context.Context) error {
	failures := 0
	wait := time.Duration(lockRenewal * float64(l.ttl))
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		before := time.Now()
		err := l.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			l.renewed, failures = before, 0
			wait = time.Duration(lockRenewal * float64(l.ttl))
		case isConflict(err):
			return fmt.Errorf("the lock of variable %q is lost, and the command was killed: %s", l.variable.Path, saidOf(err))
		case failures >= l.retries, time.Since(l.renewed) >= lockLost*l.ttl:
			return fmt.Errorf("the lock of variable %q could not be renewed, and the command was killed: %s", l.variable.Path, saidOf(err))
		default:
			left := time.Until(l.renewed.Add(lockLost * l.ttl))
			wait = min(time.Second<<min(failures, 6), left/2)
			failures++
		}
	}
}

// renew asks once, no longer than until the lock is lost.
func (l *lockLease) renew(ctx context.Context) error {
	ctx, cancel := context.WithDeadline(ctx, l.renewed.Add(lockLost*l.ttl))
	defer cancel()
	_, _, err := l.variables.RenewLock(l.variable, (&nomad.WriteOptions{}).WithContext(ctx))
	return err
}

// release lets go of the lock. One that is lost needs none.
func (l *lockLease) release() error {
	_, _, err := l.variables.ReleaseLock(&nomad.Variable{
		Namespace: l.variable.Namespace, Path: l.variable.Path, Lock: &nomad.VariableLock{ID: l.variable.LockID()},
	}, nil)
	return err
}

// lockEnd is how long a lock lasts that nobody renews.
func lockEnd(l *nomad.VariableLock) time.Duration {
	ttl, _ := time.ParseDuration(l.TTL) // the node wrote both
	delay, _ := time.ParseDuration(l.LockDelay)
	return lockLost*ttl + delay
}

// saidOf is what a node says of an error, or what the error says.
func saidOf(err error) string {
	var answer nomad.UnexpectedResponseError
	if errors.As(err, &answer) && answer.HasBody() {
		return strings.TrimSpace(answer.Body())
	}
	return err.Error()
}

func isConflict(err error) bool {
	var answer nomad.UnexpectedResponseError
	return errors.As(err, &answer) && answer.StatusCode() == http.StatusConflict
}
