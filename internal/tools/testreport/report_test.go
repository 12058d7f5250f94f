package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	passes     = `{"Action":"pass","Package":"p","Test":"TestA","Elapsed":2}` + "\n"
	fails      = `{"Action":"fail","Package":"p","Test":"TestA","Elapsed":3}` + "\n"
	subtest    = `{"Action":"fail","Package":"p","Test":"TestA/sub","Elapsed":3}` + "\n"
	packPasses = `{"Action":"pass","Package":"p","Elapsed":4}` + "\n"
	packFails  = `{"Action":"fail","Package":"p","Elapsed":4}` + "\n"
	output     = `{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL"}` + "\n"
	leak       = `{"Action":"output","Package":"p","Output":"found a leak\n"}` + "\n"
	buildFails = `{"ImportPath":"p","Action":"build-fail"}` + "\n"
)

func TestAReportSummarisesARun(t *testing.T) {
	for _, c := range []struct {
		name, events   string
		flaky, outside []string
	}{
		{"all passes", passes + packPasses, nil, nil},
		{"a test fails twice", fails + packFails + fails + packFails, nil, nil},
		{"a test passes the second time", output + subtest + fails + packFails + passes + packPasses, []string{"p.TestA"}, nil},
		{"goroutines leak", passes + leak + packFails, nil, []string{"p\nfound a leak\n\n"}},
		{"goroutines leak, and running no test again passes", passes + packFails + packPasses, nil, []string{"p\n\n"}},
		{"goroutines leak when a test is run again", fails + packFails + passes + packFails, []string{"p.TestA"}, []string{"p\n\n"}},
		{"a package does not build", buildFails + packFails, nil, []string{"p\n\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := read(strings.NewReader(c.events))
			require.NoError(t, err)
			require.Equal(t, c.flaky, r.flaky)
			require.Equal(t, c.outside, r.outside)
		})
	}
}

func TestTheSlowestTestsComeFirst(t *testing.T) {
	var events strings.Builder
	for _, test := range strings.Split("B C D E F G H I J K L M", " ") {
		events.WriteString(`{"Action":"pass","Package":"p","Test":"Test` + test + `","Elapsed":1}` + "\n")
	}
	r, err := read(strings.NewReader(fails + events.String()))
	require.NoError(t, err)
	var out strings.Builder
	r.print(&out)
	require.True(t, strings.HasPrefix(out.String(), "\n=== slowest tests\n      3.0s  p.TestA\n      1.0s  p.TestB\n"), out.String())
	require.Equal(t, 2+slowTests, strings.Count(out.String(), "\n"))
}

// TestTheStatusIsThatOfTheRun also has a run fail whose tests were run again and passed
// though a package failed outside of them.
func TestTheStatusIsThatOfTheRun(t *testing.T) {
	for _, c := range []struct {
		events, status string
		want           int
	}{
		{passes + packPasses, "0", 0},
		{fails + packFails, "1", 1},
		{fails + packFails + passes + packPasses, "0", 0},
		{passes + packFails + packPasses, "0", 1},
	} {
		events := filepath.Join(t.TempDir(), "events.json")
		require.NoError(t, os.WriteFile(events, []byte(c.events), 0o600))
		status, err := run([]string{events, c.status})
		require.NoError(t, err)
		require.Equal(t, c.want, status, c.events)
	}
}
