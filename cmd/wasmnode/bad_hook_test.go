package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatATaskNeedsAndCannotHave are tasks that fail before they start. Each failure is
// one event that a person understands, and the restart policy decides what comes of it.
func TestWhatATaskNeedsAndCannotHave(t *testing.T) {
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, there := map[string]int{"/a": 100, "/big": 2 << 20}[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(make([]byte, size))
	}))
	t.Cleanup(files.Close)
	s := newSite(t, "raw_exec")
	s.grant(t, `plugin "raw_exec" { grant { process {
  commands = ["*"]
  users    = ["*"]
} } }`)
	write(t, s.config, strings.Replace(read(t, s.config), "client {\n", "client {\n artifact {\n max_size = 1\n}\n", 1))
	n := s.start(t)
	const unreachable = "http://127.0.0.1:1" // nobody is given that port
	for name, c := range map[string]struct {
		block string
		again bool // whether trying again may help
		want  string
	}{
		"artifact that nobody serves": {
			"artifact {\n source = \"" + unreachable + "/a\"\n}", true,
			`Failed Artifact Download +.*` + regexp.QuoteMeta(unreachable) + `/a.*connection refused.*`,
		},
		"artifact that is not there": {
			"artifact {\n source = \"" + files.URL + "/b\"\n}", true,
			`Failed Artifact Download +.*/b.*404.*`,
		},
		"artifact with another checksum": {
			"artifact {\n source = \"" + files.URL + "/a\"\n options {\n checksum = \"md5:00000000000000000000000000000000\"\n}\n}", true,
			`Failed Artifact Download +.*/a": checksum does not match.*`,
		},
		"artifact beyond the node's bound": {
			"artifact {\n source = \"" + files.URL + "/big\"\n}", false,
			`Failed Artifact Download +.*/big": refused: download: it is larger than the 1\.0 MiB that this node allows`,
		},
		"template that cannot be rendered": {
			"template {\n source = \"local/none.tpl\"\n destination = \"local/x\"\n}", true,
			`Task hook failed +template: .*none\.tpl.*`,
		},
		"template that leaves the task": {
			"template {\n data = \"x\"\n destination = \"../x\"\n}", false,
			`Task hook failed +template: "\.\./x": .* is outside the task's directories`,
		},
		"user who does not exist": {
			"user = \"nobody-knows\"", false,
			`Driver Failure +.*user "nobody-knows": this node has no user or group of that name or number`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := group(fmt.Sprintf("restart {\n attempts = 1\n delay = \"1s\"\n mode = \"fail\"\n}\n"+
				"task \"t\" {\n driver = \"raw_exec\"\n config { command = \"/bin/true\" }\n%s\n}", c.block))
			r := n.run(t, "job", "run", write(t, filepath.Join(t.TempDir(), "bad.nomad.hcl"), text))
			assert.Equal(t, 1, r.code)
			id := regexp.MustCompile(`wasmnode alloc status ([0-9a-f]{8})`).FindStringSubmatch(r.stderr)
			require.NotNil(t, id, r.stderr)
			status := n.out(t, "alloc", "status", id[1])
			t.Log(status)
			assert.Regexp(t, `\n[^ ]+ +`+c.want+`\n`, status)
			assert.Equal(t, c.again, strings.Contains(status, "Task restarting in"), "the policy allows one restart of what may succeed later")
			n.out(t, "job", "stop", "-purge", "bad")
		})
	}
}
