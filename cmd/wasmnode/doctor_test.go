package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent"
)

func TestADoctorLooksAtAMachineWithoutANode(t *testing.T) {
	w := newWorkshop(t, "mock")
	plugins := filepath.Join(w.dir, "plugins")
	require.NoError(t, os.Mkdir(plugins, 0o700))
	require.NoError(t, os.Rename(filepath.Join(w.dir, "mock.wasm"), filepath.Join(plugins, "mock.wasm")))
	broken := filepath.Join(w.dir, "broken")
	require.NoError(t, os.Mkdir(broken, 0o700))
	write(t, filepath.Join(broken, "text.wasm"), "no plugin")
	data := filepath.Join(w.dir, "data")
	node := func(name, text string) string {
		return write(t, filepath.Join(w.dir, name), fmt.Sprintf("data_dir = %q\nplugin_dir = %q\n%s", data, plugins, text))
	}
	good := node("good.hcl", "client {\n  cni_path = \"/none\"\n}\nplugin \"other\" {\n}\n")
	bad := node("bad.hcl", "log_level = \"loud\"\n")
	isFile := write(t, filepath.Join(w.dir, "file"), "")
	for _, c := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"-config", good}, 0, []string{
			`(?m)^ok +config +files +` + good + `$`,
			`(?m)^ok +machine +platform +linux/`,
			`(?m)^(ok|warning) +machine +isolation `,
			`(?m)^(ok|warning) +machine +clock `,
			`(?m)^warning +machine +cni +groups with a network of mode bridge find no place: bridge, firewall, host-local, portmap is not in /none\n +-> apt install`,
			`(?m)^ok +data +data_dir +` + data + `: it is made at the first start$`,
			`(?m)^ok +plugins +plugin_dir +` + plugins + `: plugins that can be loaded: 1$`,
			`(?m)^warning +plugins +other\.wasm +the configuration has a block for plugin "other", and its file is not there\n +-> copy it to `,
			`(?m)^warning +node +agent +none answers at http://127\.0\.0\.1:1: .*\n +-> systemctl status wasmnode, or wasmnode agent -dev$`,
		}},
		{[]string{"-config", bad}, 1, []string{`(?m)^failed +config +files +configuration: log_level: "loud" is not one of .*\n +-> mend it, then: wasmnode config validate ` + bad + `$`}},
		{[]string{"-config", good, "-plugin-dir", broken}, 1, []string{
			`(?m)^failed +plugins +text\.wasm +scan: offset 0x0: not a WebAssembly module.*\n +-> wasmnode plugin doctor ` + broken + `/text\.wasm$`,
			`(?m)^warning +plugins +plugin_dir +.*: there is no plugin in it that can be loaded`,
		}},
		{[]string{"-config", good, "-plugin-dir", filepath.Join(w.dir, "none")}, 1, []string{`(?m)^failed +plugins +plugin_dir +open .*/none: no such file or directory\n`}},
		{[]string{"-config", good, "-data-dir", isFile}, 1, []string{`(?m)^failed +data +data_dir +` + isFile + ` is no directory\n`}},
	} {
		r := w.run(t, "", append([]string{"doctor", "-address", "http://127.0.0.1:1"}, c.args...)...)
		assert.Equal(t, c.code, r.code, "%v: %s%s", c.args, r.stdout, r.stderr)
		for _, want := range c.want {
			assert.Regexp(t, want, r.stdout)
		}
	}
	assert.NoDirExists(t, data, "nothing is changed")

	require.NoError(t, os.Mkdir(data, 0o700))
	write(t, filepath.Join(data, "server.db.damaged-20260101T000000.000000000Z"), "")
	r := w.run(t, "", "doctor", "-address", "http://127.0.0.1:1", "-json", "-config", good)
	var found agent.Findings
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &found), r.stderr)
	assert.Contains(t, found.Findings, agent.Finding{Status: agent.FindingOK, Part: "data", Name: "data_dir", Text: data})
	assert.Contains(t, r.stdout, "files were damaged and set aside (1), the last as ")
}

func TestADoctorAsksTheNode(t *testing.T) {
	health, status := "", http.StatusOK
	plugins := `[{"File":"/p/good.wasm","State":"healthy"},{"File":"/p/bad one.wasm","State":"rejected","Reason":"no module"},{"File":"/p/slow.wasm","State":"loading"},{"File":"/p/ill.wasm","State":"unhealthy","Reason":"needs grant"}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/agent/health":
			w.WriteHeader(status)
			_, _ = w.Write([]byte(health))
		case plugins == "":
			http.Error(w, "Permission denied", http.StatusForbidden)
		default:
			_, _ = w.Write([]byte(plugins))
		}
	}))
	defer s.Close()
	w := newWorkshop(t)
	ask := func() result {
		return w.run(t, "", "doctor", "-address", s.URL, "-config", write(t, filepath.Join(w.dir, "n.hcl"), fmt.Sprintf("data_dir = %q\n", w.dir)))
	}
	health = `{"client":{"ok":true,"message":"ok"},"conditions":[{"name":"tls","part":"client","unhealthy":false,"text":"old \u001b[2Jcertificates","since":"2023-11-14T22:13:20Z","remedy":"renew them"},{"name":"restoring","text":"restoring allocations"}]}`
	r := ask()
	assert.Equal(t, 1, r.code, r.stdout)
	assert.Regexp(t, `(?m)^ok +node +agent +it answers at `+s.URL+`$`, r.stdout)
	assert.Regexp(t, `(?m)^warning +node +tls +old .*certificates \(since 2023-11-1[45] ..:13:20\)\n +-> renew them$`, r.stdout)
	assert.NotContains(t, r.stdout, "\x1b[2J")
	assert.Regexp(t, `(?m)^warning +node +restoring +restoring allocations$`, r.stdout)
	assert.Regexp(t, `(?m)^ok +plugins +good\.wasm +healthy$`, r.stdout)
	assert.Regexp(t, `(?m)^failed +plugins +bad one\.wasm +rejected: no module\n +-> wasmnode plugin doctor '/p/bad one\.wasm'$`, r.stdout)
	assert.Regexp(t, `(?m)^warning +plugins +slow\.wasm +loading$`, r.stdout)

	assert.Regexp(t, `(?m)^warning +plugins +ill\.wasm +unhealthy: needs grant\n +-> wasmnode plugin doctor /p/ill\.wasm$`, r.stdout)

	plugins = `[{"File":"/p/good.wasm","State":"healthy"}]`
	assert.Zero(t, ask().code)
	health, status = `{"client":{"ok":false,"message":"the disk is full"},"conditions":[{"name":"disk","unhealthy":true,"text":"the disk is full","remedy":"make room"}]}`, http.StatusInternalServerError
	r = ask()
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `(?m)^failed +node +disk +the disk is full\n +-> make room$`, r.stdout)

	plugins, status = "", http.StatusOK
	health = `{}`
	r = ask()
	assert.Regexp(t, `(?m)^warning +node +plugins +.*Permission denied.*\n +-> wasmnode doctor -token=SECRET$`, r.stdout)
	assert.Regexp(t, `(?m)^ok +plugins +plugin_dir +.*/plugins: it is made when the agent starts$`, r.stdout, "what the node does not say is looked for")
}
