package conform

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
)

// Task returns a task for trying a driver with: with IDs of its own, which follow from number,
// and directories below alloc, which are made. Its config is the driver's, JSON.
func Task(alloc string, number int64, config []byte) (*wasmnodev1.TaskConfig, error) {
	dirs := &wasmnodev1.TaskDirectories{
		Alloc:   alloc,
		Shared:  filepath.Join(alloc, "alloc"),
		Task:    filepath.Join(alloc, "task"),
		Local:   filepath.Join(alloc, "task", "local"),
		Secrets: filepath.Join(alloc, "task", "secrets"),
		Logs:    filepath.Join(alloc, "alloc", "logs"),
	}
	for _, dir := range []string{dirs.Local, dirs.Secrets, dirs.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return &wasmnodev1.TaskConfig{
		Id:            fmt.Sprintf("00000000-0000-0000-0000-%012d/task/%08x", number, number),
		Name:          "task",
		AllocId:       fmt.Sprintf("00000000-0000-0000-0000-%012d", number),
		JobId:         "job",
		JobName:       "job",
		TaskGroupName: "group",
		Namespace:     "default",
		NodeName:      "node",
		NodeId:        "00000000-0000-0000-0000-000000000000",
		Env:           map[string]string{"NOMAD_TASK_NAME": "task"},
		Resources:     &wasmnodev1.Resources{CpuMhz: 100, MemoryBytes: 64 << 20},
		Directories:   dirs,
		StdoutPath:    filepath.Join(dirs.Logs, "task.stdout"),
		StderrPath:    filepath.Join(dirs.Logs, "task.stderr"),
		DriverConfig:  config,
		Log:           &wasmnodev1.LogConfig{MaxFiles: 10, MaxFileSizeBytes: 10 << 20},
	}, nil
}
