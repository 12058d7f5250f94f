package main

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestVariablesOnTheCommandLine(t *testing.T) {
	n := newSite(t, "mock").start(t)
	dir := t.TempDir()
	file := func(name, text string) string { return write(t, filepath.Join(dir, name), text) }
	for _, name := range []string{"spec.nv.hcl", "spec.nv.json"} {
		spec := filepath.Join(dir, name)
		args := []string{"var", "init", "-out", strings.TrimPrefix(filepath.Ext(name), "."), spec}
		assert.Equal(t, "Example variable specification written to "+spec+"\n", n.out(t, args...))
		assert.Equal(t, "Error: File \""+spec+"\" already exists\n", n.run(t, args...).stderr)
		n.out(t, "var", "put", "-force", "@"+spec)
		assert.Equal(t, "value 1", n.out(t, "var", "get", "-item", "key1", "path/to/variable"))
	}
	locksOnTheCommandLine(t, n)
	assert.Regexp(t, `^Created variable "app/db" with modify index \d+\n$`,
		n.out(t, "var", "put", "-out", "none", "/app/db/", "user=root", "at=\\@home", "file=@"+file("password", "p\n\x1b[0mw"), "gone="))
	assert.Equal(t, "p\n\x1b[0mw", n.out(t, "var", "get", "-item", "file", "app/db"), "as it is")
	assert.Equal(t, "@home", n.out(t, "var", "get", "-item", "at", "/app/db/"))
	assert.Regexp(t, `^Namespace   = default\nPath        = app/db\nCreate Time = \S+\nCheck Index = \d+\n\nItems\nat   = @home\nfile = p; .*\nuser = root\n$`,
		n.out(t, "var", "get", "-out", "table", "app/db"))
	assert.Equal(t, "root\n", n.out(t, "var", "get", "-out", "go-template", "-template", "{{.Items.user}}", "app/db"))
	assert.Equal(t, "root\n", n.out(t, "var", "get", "-t", "{{.Items.user}}", "app/db"))
	assert.Empty(t, n.out(t, "var", "get", "-out", "none", "app/db"))

	r := n.run(t, "var", "put", "app/db", "user=other")
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^Check-and-Set conflict\nYour provided check-index \(0\) does not match the server-side index \(\d+\)\.\nThe server-side item was last updated on \S+\.\n.* add -force or -check-index=\d+ before the positional arguments\.\n$`, r.stderr)
	// What is shown can be changed and put back, in both forms: with its index.
	for _, form := range []string{"hcl", "json"} {
		before := n.out(t, "var", "get", "-t", "{{.Items}}", "app/db")
		spec := file("back."+form, n.out(t, "var", "get", "-out", form, "app/db"))
		n.out(t, "var", "put", "@"+spec, "form="+form)
		assert.Equal(t, form, n.out(t, "var", "get", "-item", "form", "app/db"))
		assert.Equal(t, 1, n.run(t, "var", "put", "@"+spec).code, "it has changed since")
		n.out(t, "var", "put", "copy/"+form, "@"+spec)
		assert.Equal(t, before, n.out(t, "var", "get", "-t", "{{.Items}}", "copy/"+form))
	}
	cmd := n.command("var", "put", "-in", "hcl", "piped", "-", "extra.key=1")
	cmd.Stdin = strings.NewReader(`items = { "a b" = "from ${"s"}tdin" }`)
	r = execute(t, cmd)
	require.Zero(t, r.code, r.stderr)
	assert.Equal(t, "\"extra.key\" contains characters [\".\"] that require the 'index' function for direct access in templates\n", r.stderr)
	assert.Equal(t, "from stdin", n.out(t, "var", "get", "-item", "a b", "piped"))
	cmd = n.command("var", "put", "piped/value", "value=-")
	cmd.Stdin = strings.NewReader("from\nstdin")
	require.Zero(t, execute(t, cmd).code)
	assert.Equal(t, "from\nstdin", n.out(t, "var", "get", "-item", "value", "piped/value"))

	assert.Equal(t, "app/db\ncopy/hcl\ncopy/json\npath/to/variable\npiped\npiped/value\n", n.out(t, "var", "list", "-out", "terse"))
	assert.Equal(t, "default|copy/hcl\ndefault|copy/json\n", n.out(t, "var", "list", "-out", "terse", "-namespace", "*", "copy"))
	assert.Regexp(t, `^Namespace  Path +Last Updated\ndefault    copy/json  \S+Z\n$`, n.out(t, "var", "list", "-out", "table", "-filter", `Path contains "json"`))
	r = n.run(t, "var", "list", "-out", "terse", "-per-page", "2", "copy")
	assert.Equal(t, result{0, "copy/hcl\ncopy/json\n", ""}, r)
	r = n.run(t, "var", "list", "-out", "terse", "-per-page", "1")
	assert.Equal(t, result{0, "app/db\n", "Next page token: default.copy/hcl\n"}, r)
	assert.Contains(t, n.out(t, "var", "list", "-per-page", "1", "-page-token", "default.copy/hcl"), `"NextToken": "default.copy/json"`)
	assert.NotContains(t, n.out(t, "var", "list"), "root", "it has no values")
	assert.Equal(t, "No matching variables found\n", n.run(t, "var", "list", "-out", "table", "none").stderr)

	assert.Contains(t, n.run(t, "var", "purge", "-check-index", "1", "copy/hcl").stderr, "add -check-index=")
	assert.Equal(t, "Successfully purged variable \"copy/hcl\"!\n", n.out(t, "var", "purge", "copy/hcl"))
	assert.Equal(t, result{1, "", "Variable not found\n"}, n.run(t, "var", "get", "copy/hcl"))
	for line, want := range map[string]string{
		"var put a":                                             "Must supply data",
		"var put a b":                                           `"b" is not of the form KEY=VALUE`,
		"var put a b=c b=d":                                     `"b" is given twice`,
		"var put a b=@/none":                                    "b: open /none: no such file or directory",
		"var put @/none.txt":                                    "Unable to determine format of /none.txt: its name ends in .hcl or .json",
		"var put a - b=-":                                       "standard input was read already",
		"var put -in yaml a b=c":                                `Invalid value for "-in"; valid values are [hcl, json]`,
		"var put -out yaml a b=c":                               `Invalid value for "-out"; valid values are [go-template, hcl, json, none, table]`,
		"var put -out go-template a b=c":                        "A template must be supplied using '-template' when using go-template formatting",
		"var get -template x a":                                 "The '-template' flag is only valid when using 'go-template' formatting",
		"var put -check-index x a b=c":                          `-check-index "x" is not an index`,
		"var put -namespace * a b=c":                            `The wildcard namespace ("*") is not valid for this command.`,
		"var put -namespace x a b=c":                            `variable "a" is in nonexistent namespace "x"`,
		"var put a.b b=c":                                       `invalid path "a.b"`,
		"var put @" + file("bad.hcl", "colour = 1"):             "colour",
		"var put @" + file("two.hcl", "items {\n}\nitems {\n}"): "Duplicate items block",
		"var put @" + file("bad.json", `{"Items": {"a": 1}}`):   "Items cannot be a number",
		"var get -item none app/db":                             `Variable does not contain "none" item`,
		"var get -namespace * app/db":                           "wildcard namespace",
	} {
		cmd := n.command(strings.Fields(line)...)
		cmd.Stdin = strings.NewReader(`{"Items":{"a":"b"}}`)
		r := execute(t, cmd)
		assert.Equal(t, 1, r.code, line)
		assert.Contains(t, r.stderr, want, line)
	}
}

func TestRootKeysOnTheCommandLine(t *testing.T) {
	s := newSite(t, "mock")
	n := s.start(t)
	assert.Equal(t, "Key  State  Create Time\n", n.out(t, "operator", "root", "keyring", "list"))
	n.out(t, "var", "put", "app/db", "user=root")
	var keys []nomad.RootKeyMeta
	list := func() {
		require.NoError(t, json.Unmarshal([]byte(n.out(t, "operator", "root", "keyring", "list", "-json")), &keys))
	}
	list()
	first := keys[0].KeyID
	assert.Regexp(t, `^Key +State   Create Time\n\S{8}  active  \S+\n$`, n.out(t, "operator", "root", "keyring", "rotate", "-now"))
	assert.Equal(t, "Error: root key in use, cannot delete\n", n.run(t, "operator", "root", "keyring", "remove", first).stderr)
	n.out(t, "operator", "root", "keyring", "rotate", "-now", "-full")
	assert.Equal(t, "Removed encryption key "+first+"\n", n.out(t, "operator", "root", "keyring", "remove", first[:8]))
	list()
	assert.Len(t, keys, 2)
	for line, want := range map[string]string{
		"rotate":                     `One of "-now" or "-prepublish" must be used.`,
		"rotate -now -prepublish 1h": `One of "-now" or "-prepublish" must be used.`,
		"rotate -prepublish 1h":      "a root key is used and published at once, and the ones before it stay published: rotate it when it is to be used",
		"remove zz":                  `0 root keys have an ID that begins with "zz"`,
		"remove " + keys[1].KeyID:    "active root key cannot be deleted - call rotate first",
	} {
		assert.Equal(t, result{1, "", "Error: " + want + "\n"}, n.run(t, append([]string{"operator", "root", "keyring"}, strings.Fields(line)...)...), line)
	}

	// A node without its keys runs, and says what to do.
	n.signal(t, syscall.SIGKILL)
	aside := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, os.Rename(filepath.Join(s.data, "keyring"), aside))
	n = s.start(t)
	const what = "1 variables are sealed with it: put its file back and restart the agent"
	assert.Equal(t, 1, strings.Count(n.log.String(), what), n.log)
	_, health := n.health(t)
	const told = "1 root keys of variables cannot be read: the log says which, and what to do"
	assert.Contains(t, health, told)
	assert.NotContains(t, health, "keyring", "anybody may see it")
	assert.Contains(t, n.run(t, "var", "get", "app/db").stderr, "put its file back and restart the agent")
	assert.Contains(t, n.out(t, "var", "list"), "app/db")
	n.signal(t, syscall.SIGTERM)
	require.NoError(t, os.Rename(aside, filepath.Join(s.data, "keyring")))
	n = s.start(t)
	assert.Equal(t, "root", n.out(t, "var", "get", "-item", "user", "app/db"))
	_, health = n.health(t)
	assert.NotContains(t, health, told)
}

// TestNoSecretIsInTheClear looks for one in all that an agent leaves: its files, its log, what
// is gathered for somebody else, a snapshot.
func TestNoSecretIsInTheClear(t *testing.T) {
	const secret = "s3cr3t_that_nobody_else_writes"
	s := newSite(t, "mock")
	s.grant(t, "enable_debug = true")
	n := s.start(t, "-log-level", "trace")
	dir := t.TempDir()
	n.out(t, "var", "put", "app/db", "password="+secret, secret+"=key")
	n.run(t, "var", "put", "app/db", "password="+secret)                          // a conflict
	n.run(t, "var", "put", "-force", "app.db", "password="+secret)                // refused
	n.run(t, "var", "put", "big", "password="+secret+strings.Repeat("x", 64<<10)) // refused
	n.out(t, "var", "put", "gone", "password="+secret)
	n.out(t, "var", "purge", "gone")
	assert.Equal(t, secret, n.out(t, "var", "get", "-item", "password", "app/db"))
	n.out(t, "operator", "root", "keyring", "rotate", "-now", "-full")
	n.out(t, "operator", "snapshot", "save", filepath.Join(dir, "state.snap"))
	cmd := n.command("operator", "debug", "-duration", "1s", "-interval", "1s")
	cmd.Dir = dir
	require.Zero(t, execute(t, cmd).code)
	n.signal(t, syscall.SIGKILL)
	again := s.start(t)
	again.signal(t, syscall.SIGTERM)
	require.NotContains(t, n.log.String()+again.log.String(), secret)
	searched := 0
	for _, root := range []string{s.data, dir} {
		require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			if unpacked, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
				content, err = io.ReadAll(unpacked)
				require.NoError(t, err)
			}
			for i := range 3 {
				code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + secret))
				assert.NotContains(t, string(content), code[4:len(code)-4], name)
			}
			assert.False(t, bytes.Contains(content, []byte(secret)), name)
			searched++
			return nil
		}))
	}
	require.Greater(t, searched, 5)
}
