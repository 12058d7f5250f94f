package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errCores is why a process cannot be started on the processors that it is to have.
var errCores = errors.New("cores")

// cores are those that a process is to be kept on; none: all. What tries whether processes
// can be isolated has no spec.
func (p *process) cores() []uint32 {
	if p.spec == nil || p.spec.Process == nil {
		return nil
	}
	return p.spec.Process.Cores
}

// onCores has the thread that forks run on nothing but the given processors meanwhile: a
// process begins where the thread is that forked it. None: on all that it may use.
func onCores(cores []uint32, fork func() error) func() error {
	if len(cores) == 0 {
		return fork
	}
	return func() error {
		own, chosen, err := coresOf(0, cores)
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(0, chosen); err != nil {
			return fmt.Errorf("%w: %w", errCores, err)
		}
		err = fork()
		if back := unix.SchedSetaffinity(0, own); back != nil {
			// Whatever this thread starts from now on would have too little.
			err = errors.Join(err, fmt.Errorf("%w: %w", errCores, back))
		}
		return err
	}
}

// coresOf returns the processors that a thread may use, by its number or 0 for this one, and those of them that have
// the given numbers.
func coresOf(thread int, cores []uint32) (own, chosen *unix.CPUSet, err error) {
	own = new(unix.CPUSet)
	if err := unix.SchedGetaffinity(thread, own); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errCores, err)
	}
	chosen, err = chooseCores(own, cores)
	return own, chosen, err
}

// chooseCores returns those of the processors in a set that have the given numbers in it.
func chooseCores(own *unix.CPUSet, cores []uint32) (*unix.CPUSet, error) {
	var all []int
	for cpu := range len(own) * 64 {
		if own.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	var chosen unix.CPUSet
	for _, core := range cores {
		if int(core) >= len(all) {
			return nil, fmt.Errorf("%w: there is no core %d: the supervisor may use %d, counted from 0", errCores, core, len(all))
		}
		chosen.Set(all[core])
	}
	return &chosen, nil
}
