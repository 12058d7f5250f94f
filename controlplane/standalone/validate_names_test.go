package standalone

import (
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"
)

// A name that drives the terminal, or shows as another, is in nobody's list.
func TestNamesWithControlCharactersAreRefused(t *testing.T) {
	s, err := Open(Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for name, c := range map[string]struct {
		put  func(j *nomad.Job)
		want string
	}{
		"job":   {func(j *nomad.Job) { j.ID = new("a\x1b[2J") }, `Job ID: "a\x1b[2J" has control characters`},
		"name":  {func(j *nomad.Job) { j.Name = new("a\nb") }, `Job name: "a\nb" has control characters`},
		"group": {func(j *nomad.Job) { j.TaskGroups[0].Name = new("\u202eg") }, `Job task group name: "\u202eg" has control characters`},
		"task":  {func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Name = "t\u0085" }, `: name: "t\u0085" has control characters`},
		"service": {func(j *nomad.Job) { j.TaskGroups[0].Services = []*nomad.Service{{Name: "s\x07"}} },
			`: service: name: "s\a" has control characters`},
		"check": {func(j *nomad.Job) {
			j.TaskGroups[0].Tasks[0].Services = []*nomad.Service{{Name: "s", Checks: []nomad.ServiceCheck{{Name: "c\x7f", Type: "tcp"}}}}
		}, `: service: check: name: "c\x7f" has control characters`},
	} {
		t.Run(name, func(t *testing.T) {
			j := testJob("names", "batch")
			c.put(j)
			faults, _ := s.ValidateJob(j)
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.want)
		})
	}
	j := testJob("grüße-☂", "batch")
	faults, _ := s.ValidateJob(j)
	require.Empty(t, faults)
}
