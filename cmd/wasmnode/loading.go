package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/managers/catalog"
)

const (
	// loadingTick is how often it is looked whether plugins still load.
	loadingTick = 200 * time.Millisecond
	// loadedGrace is what the control plane may take to place what a plugin was waited for
	// that has loaded.
	loadedGrace = 5 * time.Second
)

// awaitPlugins waits for plugins that still load when something could not be placed, as after
// a start of the agent, and returns the ID of the evaluation that placed it then; empty: none
// did.
func (m *monitor) awaitPlugins(eval *nomad.Evaluation) (then string, err error) {
	if len(eval.FailedTGAllocs) == 0 {
		return "", nil
	}
	files, err := m.loading()
	if err != nil || len(files) == 0 {
		return "", err
	}
	m.ui.Output(fmt.Sprintf("==> %s: Plugins still load, and may provide what is missing: %s", now(), strings.Join(files, ", ")))
	for deadline := time.Now().Add(loadedGrace); time.Now().Before(deadline); time.Sleep(loadingTick) {
		if then, err := m.after(eval); err != nil || then != "" {
			return then, err
		}
		switch files, err = m.loading(); {
		case err != nil:
			return "", err
		case len(files) > 0:
			deadline = time.Now().Add(loadedGrace)
		}
	}
	return "", nil
}

// after returns the ID of the evaluation that placed what another could not; empty: there is
// none yet. It is the one that was blocked or, where none waited for the node, a later one.
func (m *monitor) after(eval *nomad.Evaluation) (string, error) {
	if eval.BlockedEval != "" {
		blocked, _, err := m.client.Evaluations().Info(eval.BlockedEval, nil)
		if err != nil || blocked.Status == "blocked" {
			return "", err
		}
		return blocked.ID, nil
	}
	all, _, err := m.client.Jobs().Evaluations(eval.JobID, nil)
	for _, e := range all {
		if e.CreateIndex > eval.CreateIndex && e.Status == "complete" {
			return e.ID, err
		}
	}
	return "", err
}

// loading are the files of the plugins that the agent still loads.
func (m *monitor) loading() (files []string, err error) {
	var plugins []catalog.PluginStatus
	if _, err := m.client.Raw().Query("/v1/agent/plugins", &plugins, nil); err != nil {
		return nil, err
	}
	for _, p := range plugins {
		if p.State == catalog.StateLoading {
			files = append(files, filepath.Base(p.File))
		}
	}
	return files, nil
}
