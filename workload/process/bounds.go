package process

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/workload"
	"github.com/wasmnode/wasmnode/workload/process/isolate"
)

// maxOOMScoreAdj is the kernel's.
const maxOOMScoreAdj = 1000

// checkBounds refuses those that no process can have here.
func checkBounds(b workload.Bounds) error {
	refused := func(format string, args ...any) error {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf(format, args...))
	}
	if b.OOMScoreAdj < 0 || b.OOMScoreAdj > maxOOMScoreAdj {
		return refused("oom_score_adj %d is not from 0 to %d", b.OOMScoreAdj, maxOOMScoreAdj)
	}
	seen := map[string]bool{}
	for _, l := range b.Limits {
		most, known := isolate.HardLimit(l.Name)
		switch {
		case !known:
			return refused("unknown limit %q: there are %s", l.Name, strings.Join(isolate.LimitNames(), ", "))
		case seen[l.Name]:
			return refused("limit %s is given twice", l.Name)
		case l.Soft > l.Hard:
			return refused("limit %s: soft %d is above hard %d", l.Name, l.Soft, l.Hard)
		case l.Hard > most:
			return refused("limit %s: %d is above the node's own, %d", l.Name, l.Hard, most)
		}
		seen[l.Name] = true
	}
	return nil
}

// checkPaths refuses what is no path, and what this machine cannot keep to.
func checkPaths(paths []workload.Path) error {
	if err := isolate.PathsMissing(); err != nil {
		return abi.NewError(abi.Unimplemented, "isolation paths: "+err.Error())
	}
	if len(paths) == 0 || len(paths) > workload.MaxPaths {
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("%d paths: there are from 1 to %d", len(paths), workload.MaxPaths))
	}
	for _, p := range paths {
		if !filepath.IsAbs(p.Path) || p.Rights == "" || strings.Trim(p.Rights, workload.PathRights) != "" {
			return abi.NewError(abi.InvalidArgument, fmt.Sprintf("path %q with the rights %q: it has to be absolute, with some of %s", p.Path, p.Rights, workload.PathRights))
		}
	}
	return nil
}
