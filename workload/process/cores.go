package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/abi"
)

// maskOf returns the mask of sched_setaffinity(2) of the processors with the given numbers among those that
// this process may use; nil: all of them. A new process sets it itself: being put into a cgroup with cpuset takes back
// what it began with.
func maskOf(cores []uint32) (mask []uint64, err error) {
	if len(cores) == 0 {
		return nil, nil
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &own); err != nil {
		return nil, fmt.Errorf("cores: %w", err)
	}
	chosen, err := chooseCores(&own, cores)
	if err != nil {
		return nil, err
	}
	for _, word := range chosen {
		mask = append(mask, uint64(word))
	}
	return mask, nil
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
			return nil, abi.NewError(abi.InvalidArgument, fmt.Sprintf("cores: there is no core %d: the supervisor may use %d, counted from 0", core, len(all)))
		}
		chosen.Set(all[core])
	}
	return &chosen, nil
}
