package main

import (
	"fmt"
	"strings"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

func TestDownloadsAreShownWhileTheyGoOn(t *testing.T) {
	verbose := false
	m := &monitor{flags: &flags{verbose: &verbose}}
	stub := func(i int, status string, events ...string) *nomad.AllocationListStub {
		s := &nomad.TaskState{}
		for _, e := range events {
			s.Events = append(s.Events, &nomad.TaskEvent{Type: e, DisplayMessage: "text of " + e})
		}
		return &nomad.AllocationListStub{ID: fmt.Sprintf("%08d-rest", i), ClientStatus: status, TaskStates: map[string]*nomad.TaskState{"t": s}}
	}
	require.Empty(t, m.downloads([]*nomad.AllocationListStub{
		stub(1, "pending"), stub(2, "pending", nomad.TaskDownloadingArtifacts, nomad.TaskStarted), stub(3, "failed", nomad.TaskDownloadingArtifacts),
	}))
	var many []*nomad.AllocationListStub
	for i := range maxDownloads + 2 {
		many = append(many, stub(i, "pending", nomad.TaskReceived, nomad.TaskDownloadingArtifacts))
	}
	lines := strings.Split(m.downloads(many), "\n")
	require.Equal(t, "Downloads", lines[2])
	require.Equal(t, `Allocation "00000000": task "t": text of Downloading Artifacts`, lines[3])
	require.Equal(t, "and 2 more", lines[len(lines)-1])
	require.Len(t, lines, 3+maxDownloads+1)
}
